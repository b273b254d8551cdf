# How the library's modules and their unit tests are declared.

# Flags of everything that is compiled. Products are never contracted or reassociated, and floats are
# not computed in double (gcc's choice for s390x in standard C): the bits of every result are part of
# the contract.
add_library(quire_flags INTERFACE)
target_compile_features(quire_flags INTERFACE c_std_11)
target_compile_options(quire_flags INTERFACE
  $<$<C_COMPILER_ID:GNU,Clang,AppleClang>:-Wall -Wextra -Wpedantic -Wconversion -Wshadow
    -Wstrict-prototypes -Wvla -Werror -ffp-contract=off -fno-math-errno>
  $<$<C_COMPILER_ID:GNU>:-fexcess-precision=fast>
  $<$<NOT:$<CONFIG:Debug>>:${QUIRE_HARDENING_FLAGS}>)
target_include_directories(quire_flags INTERFACE ${PROJECT_SOURCE_DIR}/include)

# quire_module(NAME SOURCES...): an object library quire_NAME of one folder. Its headers are found by
# bare name (base names are unique in the tree) by the modules that come later.
define_property(GLOBAL PROPERTY QUIRE_MODULES BRIEF_DOCS "object libraries of the library")
function(quire_module name)
  add_library(quire_${name} OBJECT ${ARGN})
  set_target_properties(quire_${name} PROPERTIES
    C_EXTENSIONS OFF C_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)
  target_compile_definitions(quire_${name} PRIVATE QUIRE_BUILD)
  target_include_directories(quire_${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(quire_${name} PUBLIC quire_flags)
  set_property(GLOBAL APPEND PROPERTY QUIRE_MODULES quire_${name})
  foreach(earlier IN LISTS QUIRE_${name}_USES)
    target_include_directories(quire_${name} PUBLIC
      $<TARGET_PROPERTY:quire_${earlier},INTERFACE_INCLUDE_DIRECTORIES>)
  endforeach()
endfunction()

# quire_unit_test(NAME SOURCES... MODULES names... [LIBRARIES libs...]): a cmocka program that links
# just these modules, registered with ctest under its name.
function(quire_unit_test name)
  cmake_parse_arguments(test "" "" "MODULES;LIBRARIES" ${ARGN})
  add_executable(${name} ${test_UNPARSED_ARGUMENTS})
  set_target_properties(${name} PROPERTIES C_EXTENSIONS OFF)
  target_compile_definitions(${name} PRIVATE QUIRE_STATIC
    QUIRE_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  foreach(module IN LISTS test_MODULES)
    target_link_libraries(${name} PRIVATE quire_${module})
  endforeach()
  target_link_libraries(${name} PRIVATE quire_test_support quire_flags cmocka::cmocka
    jansson::jansson m ${test_LIBRARIES})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()

# quire_isa_sources(MODULE ISA FILES...): adds files that are compiled with the flags of one
# instruction set (avx2, avx512, avx512bf16, amx, neon), where the target's processor can have it, and then
# defines QUIRE_WITH_AVX2, QUIRE_WITH_AVX512, ... for the module, for its table of
# implementations. Nothing in these files may be called but through that table. Debug builds optimise
# them too: gcc clears the upper halves of vectors (vzeroupper) from -O2 on only, and without that
# everything after a kernel is slow on some processors.
# prefetchw does nothing on processors that do not know it.
set(QUIRE_avx2_FLAGS -mavx2 -mfma -mf16c -mprfchw)
set(QUIRE_avx512_FLAGS ${QUIRE_avx2_FLAGS} -mavx512f -mavx512bw -mavx512vl -mavx512dq)
set(QUIRE_avx512bf16_FLAGS ${QUIRE_avx512_FLAGS} -mavx512bf16)
set(QUIRE_amx_FLAGS ${QUIRE_avx512bf16_FLAGS} -mamx-tile -mamx-bf16)
set(QUIRE_neon_FLAGS)
function(quire_isa_sources module isa)
  if(isa STREQUAL "neon")
    set(processors "^(aarch64|arm64|ARM64)$")
  else()
    set(processors "^(x86_64|AMD64|amd64)$")
  endif()
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "${processors}" OR NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
    return()
  endif()
  target_sources(quire_${module} PRIVATE ${ARGN})
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS
    "${QUIRE_${isa}_FLAGS};$<IF:$<CONFIG:Debug>,-O2,-O3>")
  string(TOUPPER "${isa}" upper)
  target_compile_definitions(quire_${module} PRIVATE QUIRE_WITH_${upper})
endfunction()
