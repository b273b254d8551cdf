#!/bin/bash
# The shared library exports what the public headers declare, no more and no less; every external
# symbol of the static library begins with quire_.
#   symbols.sh SOURCE_DIR libquire.so libquire.a
set -u
source_dir=$1 shared=$2 static=$3
failed=0
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT

nm -D --defined-only "$shared" | awk '{ print $NF }' | sed 's/@.*//' | grep -v '^__' | sort -u >"$work/exported"
# Builds without xxHash lack the serving layer as a whole.
headers=("$source_dir"/include/quire/*.h)
grep -q '^quire_cache_create$' "$work/exported" ||
  mapfile -t headers < <(printf '%s\n' "${headers[@]}" | grep -v '/serving\.h$')
# Comments away, one line, then the last word before the bracket of each QUIRE_API declaration.
cat "${headers[@]}" | tr '\n' ' ' | sed -E 's|/\*([^*]\|\*+[^*/])*\*+/| |g' |
  grep -oE 'QUIRE_API [^;(#]*\(' | sed -E 's/.*[ *](quire_[a-z0-9_]+) *\($/\1/' | grep '^quire_' | sort -u >"$work/declared"

[ -s "$work/declared" ] || { echo "no declarations found"; exit 1; }
[ -s "$work/exported" ] || { echo "$shared exports nothing"; exit 1; }
comm -13 "$work/declared" "$work/exported" >"$work/extra"
comm -23 "$work/declared" "$work/exported" >"$work/missing"
[ -s "$work/extra" ] && { echo "exported, not declared QUIRE_API:"; cat "$work/extra"; failed=1; }
[ -s "$work/missing" ] && { echo "declared QUIRE_API, not exported:"; cat "$work/missing"; failed=1; }

# Names that begin with two underscores belong to the compiler and its sanitizers.
nm -g --defined-only "$static" | awk 'NF == 3 { print $3 }' | grep -Ev '^(quire_|__)' | sort -u >"$work/foreign"
[ -s "$work/foreign" ] && { echo "without prefix in the static library:"; cat "$work/foreign"; failed=1; }

echo "$(wc -l <"$work/exported") exported symbols"
exit $failed
