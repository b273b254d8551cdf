# The install target: libraries, headers, and what find_package(quire) and pkg-config read.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS quire_static quire_shared EXPORT quire-targets
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/quire
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
if(TARGET quire)
  install(TARGETS quire RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/quire)
install(EXPORT quire-targets NAMESPACE quire:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/quire-config.cmake.in
  ${PROJECT_BINARY_DIR}/quire-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/quire-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/quire-config.cmake
  ${PROJECT_BINARY_DIR}/quire-config-version.cmake
  ${PROJECT_SOURCE_DIR}/cmake/QuireDependencies.cmake
  DESTINATION ${package_dir})

set(QUIRE_PC_PRIVATE "-lm -pthread")
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR} OR IS_ABSOLUTE ${CMAKE_INSTALL_INCLUDEDIR})
  set(QUIRE_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
  set(QUIRE_PC_LIBDIR ${CMAKE_INSTALL_FULL_LIBDIR})
  set(QUIRE_PC_INCLUDEDIR ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
  # Relative to the file itself, so that the installation can be moved.
  file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" up "${up}")
  set(QUIRE_PC_PREFIX "\${pcfiledir}/${up}")
  set(QUIRE_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
  set(QUIRE_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/quire.pc.in ${PROJECT_BINARY_DIR}/quire.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/quire.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
