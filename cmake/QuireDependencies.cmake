# What the build needs from outside, as imported targets. Programs that find an installed Quire include
# this file too, since the static library passes its needs on. The targets are global, so that a project
# that adds Quire as a subdirectory sees them.
find_package(Threads REQUIRED GLOBAL)

if(NOT TARGET jansson::jansson)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(QUIRE_JANSSON REQUIRED IMPORTED_TARGET GLOBAL jansson>=2.13)
  add_library(jansson::jansson INTERFACE IMPORTED GLOBAL)
  set_target_properties(jansson::jansson PROPERTIES
    INTERFACE_LINK_LIBRARIES PkgConfig::QUIRE_JANSSON)
endif()

if((QUIRE_BUILD_TESTS OR QUIRE_BUILD_FUZZERS) AND NOT TARGET cmocka::cmocka)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(QUIRE_CMOCKA REQUIRED IMPORTED_TARGET cmocka)
  add_library(cmocka::cmocka ALIAS PkgConfig::QUIRE_CMOCKA)
endif()

# Everything that the library itself links, and nobody who uses it sees.
set(QUIRE_PRIVATE_LIBRARIES jansson::jansson Threads::Threads)
if(UNIX)
  list(APPEND QUIRE_PRIVATE_LIBRARIES m)
endif()
