# What the build needs from outside, as imported targets.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

if(NOT TARGET jansson::jansson)
  pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson>=2.13)
  add_library(jansson::jansson ALIAS PkgConfig::JANSSON)
endif()

# pthreadpool ships no .pc file.
if(NOT QUIRE_SANITIZER_EXECUTOR)
  find_path(PTHREADPOOL_INCLUDE_DIR pthreadpool.h)
  find_library(PTHREADPOOL_LIBRARY pthreadpool)
  if(NOT PTHREADPOOL_INCLUDE_DIR OR NOT PTHREADPOOL_LIBRARY)
    message(FATAL_ERROR "pthreadpool was not found (Debian: libpthreadpool-dev)")
  endif()
  add_library(pthreadpool::pthreadpool UNKNOWN IMPORTED)
  set_target_properties(pthreadpool::pthreadpool PROPERTIES
    IMPORTED_LOCATION ${PTHREADPOOL_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${PTHREADPOOL_INCLUDE_DIR}
    INTERFACE_LINK_LIBRARIES Threads::Threads)
endif()

if(QUIRE_BUILD_TESTS)
  pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
  add_library(cmocka::cmocka ALIAS PkgConfig::CMOCKA)
endif()
