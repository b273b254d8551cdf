# Cross builds on Debian by QUIRE_TRIPLET's gcc, with the packages that dpkg's architecture
# CMAKE_LIBRARY_ARCHITECTURE has; what was built runs under qemu's user emulation, where
# QUIRE_EMULATION names it. Included by the toolchain files beside this one.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_C_COMPILER ${QUIRE_TRIPLET}-gcc)
set(CMAKE_CXX_COMPILER ${QUIRE_TRIPLET}-g++)

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/pkgconfig:/usr/share/pkgconfig)

if(QUIRE_EMULATION)
  find_program(QUIRE_EMULATOR NAMES ${QUIRE_EMULATION} ${QUIRE_EMULATION}-static)
  if(QUIRE_EMULATOR)
    set(CMAKE_CROSSCOMPILING_EMULATOR ${QUIRE_EMULATOR})
  endif()
endif()
