#!/bin/bash
# Each public header compiles alone, as C11 and as C++17, without a warning.
#   headers.sh SOURCE_DIR C_COMPILER [CXX_COMPILER]
set -u
source_dir=$1 cc=$2 cxx=${3:-}
warnings='-Wall -Wextra -Wpedantic -Werror'
failed=0 count=0
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT

for header in "$source_dir"/include/quire/*.h; do
  name=quire/$(basename "$header")
  printf '#include "%s"\n#include "%s"\nint main(void) { return 0; }\n' "$name" "$name" >"$work/one.c"
  cp "$work/one.c" "$work/one.cpp"
  # shellcheck disable=SC2086
  "$cc" -std=c11 $warnings -Wstrict-prototypes -fsyntax-only -I"$source_dir/include" "$work/one.c" ||
    { echo "$name does not compile alone as C11"; failed=1; }
  if [ -n "$cxx" ]; then
    # shellcheck disable=SC2086
    "$cxx" -std=c++17 $warnings -fsyntax-only -I"$source_dir/include" "$work/one.cpp" ||
      { echo "$name does not compile alone as C++17"; failed=1; }
  fi
  count=$((count + 1))
done
[ "$count" -gt 0 ] || { echo "no headers in $source_dir/include/quire"; exit 1; }
[ -n "$cxx" ] || echo "no C++ compiler: C++17 was not checked"
echo "$count headers"
exit $failed
