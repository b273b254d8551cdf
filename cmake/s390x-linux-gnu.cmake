# A big-endian processor: gcc-s390x-linux-gnu, qemu-user, libjansson-dev:s390x and
# libcmocka-dev:s390x (dpkg --add-architecture s390x).
set(CMAKE_SYSTEM_PROCESSOR s390x)
set(CMAKE_LIBRARY_ARCHITECTURE s390x-linux-gnu)
set(QUIRE_TRIPLET s390x-linux-gnu)
set(QUIRE_EMULATION qemu-s390x)
include(${CMAKE_CURRENT_LIST_DIR}/linux-gnu.cmake)
