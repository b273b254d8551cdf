#!/bin/bash
# Installs into an empty prefix and builds a program against it by each way that the README names:
# find_package and pkg-config, shared and static; then by add_subdirectory. Runs every one.
#   install_test.sh SOURCE_DIR BUILD_DIR CMAKE C_COMPILER
set -eu
source_dir=$1 build_dir=$2 cmake=$3 cc=$4
consumer=$source_dir/tests/checks/consumer
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
# The generator of the build itself: a machine may have no other.
CMAKE_GENERATOR=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$build_dir/CMakeCache.txt")
export CMAKE_GENERATOR

say() { echo "-- $*"; }
"$cmake" --install "$build_dir" --prefix "$prefix" >"$work/log" || { cat "$work/log"; exit 1; }
libdir=$(dirname "$(find "$prefix" -name libquire.a)")
[ -f "$libdir/libquire.so" ] || { echo "no libquire.so in $libdir"; exit 1; }

build() { # NAME, then options of CMake
  local name=$1
  shift
  say "$name"
  "$cmake" -S "$consumer" -B "$work/$name" -DCMAKE_C_COMPILER="$cc" "$@" >"$work/log" 2>&1 &&
    "$cmake" --build "$work/$name" -j2 >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  "$work/$name/consumer"
}
build find_package-static -DCMAKE_PREFIX_PATH="$prefix" -DBUILD_SHARED_LIBS=OFF
build find_package-shared -DCMAKE_PREFIX_PATH="$prefix" -DBUILD_SHARED_LIBS=ON

# Moved away, to see that nothing remembers the first prefix.
mv "$prefix" "$work/moved"
libdir=$work/moved${libdir#"$prefix"}
export PKG_CONFIG_PATH=$libdir/pkgconfig
say pkg-config-shared
# shellcheck disable=SC2046
"$cc" -o "$work/shared" "$consumer/consumer.c" $(pkg-config --cflags --libs quire)
LD_LIBRARY_PATH=$libdir "$work/shared"
readelf -d "$work/shared" | grep -q 'NEEDED.*libquire' || { echo "not linked to libquire.so"; exit 1; }

say pkg-config-static
rm "$libdir"/libquire.so*
# shellcheck disable=SC2046
"$cc" -DQUIRE_STATIC -o "$work/static" "$consumer/consumer.c" $(pkg-config --static --cflags --libs quire)
"$work/static"

build add_subdirectory -DQUIRE_SOURCE_DIR="$source_dir"
echo "all ways work"
