# 32-bit x86, which an x86-64 machine runs as it is: gcc-i686-linux-gnu, libjansson-dev:i386 and
# libcmocka-dev:i386 (dpkg --add-architecture i386). Arithmetic by SSE: the x87's wider registers
# would change bits.
set(CMAKE_SYSTEM_PROCESSOR i686)
set(CMAKE_LIBRARY_ARCHITECTURE i386-linux-gnu)
set(CMAKE_C_FLAGS_INIT "-msse2 -mfpmath=sse")
set(QUIRE_TRIPLET i686-linux-gnu)
include(${CMAKE_CURRENT_LIST_DIR}/linux-gnu.cmake)
