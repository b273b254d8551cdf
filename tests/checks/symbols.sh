#!/bin/bash
# The shared library exports what the public headers declare and library/exports.txt lists, no more and
# no less; every external symbol of the static library begins with quire_.
#   symbols.sh SOURCE_DIR libquire.so libquire.a
set -u
source_dir=$1 shared=$2 static=$3
failed=0
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT

# declared HEADER...: comments away, one line, then the last word before the bracket of each
# QUIRE_API declaration.
declared() {
  cat "$@" | tr '\n' ' ' | sed -E 's|/\*([^*]\|\*+[^*/])*\*+/| |g' | grep -oE 'QUIRE_API [^;(#]*\(' |
    sed -E 's/.*[ *](quire_[a-z0-9_]+) *\($/\1/' | grep '^quire_' | sort -u
}

# compare NAME FILE NAME FILE
compare() {
  comm -23 "$2" "$4" >"$work/only"
  [ ! -s "$work/only" ] || { echo "$1, not $3:"; cat "$work/only"; failed=1; }
  comm -13 "$2" "$4" >"$work/only"
  [ ! -s "$work/only" ] || { echo "$3, not $1:"; cat "$work/only"; failed=1; }
}

nm -D --defined-only "$shared" | awk '{ print $NF }' | sed 's/@.*//' | grep -v '^__' | sort -u >"$work/exported"
declared "$source_dir"/include/quire/*.h >"$work/declared"
grep -v '^#' "$source_dir/library/exports.txt" | sort -u >"$work/listed"
# Builds without xxHash lack the serving layer as a whole.
if ! grep -q '^quire_cache_create$' "$work/exported"; then
  declared "$source_dir/include/quire/serving.h" >"$work/serving"
  for name in declared listed; do
    comm -23 "$work/$name" "$work/serving" >"$work/kept" && mv "$work/kept" "$work/$name"
  done
fi
for name in exported declared listed; do
  [ -s "$work/$name" ] || { echo "no symbol is $name"; exit 1; }
done
compare exported "$work/exported" "declared QUIRE_API" "$work/declared"
compare exported "$work/exported" "listed in library/exports.txt" "$work/listed"

# Names that begin with two underscores belong to the compiler and its sanitizers.
nm -g --defined-only "$static" | awk 'NF == 3 { print $3 }' | grep -Ev '^(quire_|__)' | sort -u >"$work/foreign"
[ -s "$work/foreign" ] && { echo "without prefix in the static library:"; cat "$work/foreign"; failed=1; }

echo "$(wc -l <"$work/exported") exported symbols"
exit $failed
