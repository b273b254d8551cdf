# 64-bit Arm: gcc-aarch64-linux-gnu, qemu-user, libjansson-dev:arm64 and libcmocka-dev:arm64
# (dpkg --add-architecture arm64).
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(QUIRE_TRIPLET aarch64-linux-gnu)
set(QUIRE_EMULATION qemu-aarch64)
include(${CMAKE_CURRENT_LIST_DIR}/linux-gnu.cmake)
