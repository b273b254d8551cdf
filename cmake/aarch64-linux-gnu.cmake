# Cross-builds for 64-bit Arm on Debian, and runs what was built under qemu's user emulation:
#   cmake -S . -B build/neon --toolchain cmake/aarch64-linux-gnu.cmake
# Needs gcc-aarch64-linux-gnu, qemu-user and the arm64 packages of jansson and cmocka
# (dpkg --add-architecture arm64).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)

find_program(QUIRE_EMULATOR NAMES qemu-aarch64 qemu-aarch64-static)
if(QUIRE_EMULATOR)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${QUIRE_EMULATOR})
endif()
