# What keeps an error in memory from becoming more than a crash, for everything that is compiled with
# optimisation and for what is loaded or started: tests/checks/hardening.sh reads the results back.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)

set(QUIRE_SANITIZED OFF)
if(CMAKE_C_FLAGS MATCHES "-fsanitize")
  set(QUIRE_SANITIZED ON)
endif()

# Options that this compiler has for this processor.
set(QUIRE_HARDENING_FLAGS "")
foreach(flag IN ITEMS -fstack-protector-strong -fstack-clash-protection -fcf-protection)
  string(MAKE_C_IDENTIFIER "QUIRE_HAS${flag}" known)
  check_c_compiler_flag("-Werror ${flag}" ${known})
  if(${known})
    list(APPEND QUIRE_HARDENING_FLAGS ${flag})
  endif()
endforeach()

# Checked memcpy() and printf(), by level 3 where compiler and C library know it; nothing where a
# sanitizer checks more.
if(NOT QUIRE_SANITIZED AND CMAKE_C_COMPILER_ID MATCHES "GNU|Clang" AND NOT WIN32)
  set(CMAKE_REQUIRED_FLAGS "-O2 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
  check_c_source_compiles("#include <string.h>\nint main(void) { return (int)strlen(\"\"); }"
    QUIRE_HAS_FORTIFY_3)
  unset(CMAKE_REQUIRED_FLAGS)
  set(level 2)
  if(QUIRE_HAS_FORTIFY_3)
    set(level 3)
  endif()
  list(APPEND QUIRE_HARDENING_FLAGS -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=${level})
endif()

# quire_harden(TARGET): a shared library, a module or a program that Quire installs.
function(quire_harden target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  if(NOT CMAKE_SYSTEM_NAME STREQUAL Linux)
    return()
  endif()
  target_link_options(${target} PRIVATE LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
  # Sanitizers leave their run-time's symbols to the program.
  if(NOT QUIRE_SANITIZED)
    target_link_options(${target} PRIVATE LINKER:-z,defs)
  endif()
endfunction()
