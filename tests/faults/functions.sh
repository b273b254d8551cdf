#!/bin/bash
# Every function that the library exports is in a scenario of the fault test: none can be forgotten.
#   functions.sh FAULT_TEST libquire.so
set -u
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
"$1" --list | tr ' ' '\n' | grep . | sort -u >"$work/called" || exit 1
nm -D --defined-only "$2" | awk '{ print $NF }' | sed 's/@.*//' | grep '^quire_' | sort -u >"$work/exported"
[ -s "$work/exported" ] || { echo "$2 exports nothing"; exit 1; }
status=0
comm -13 "$work/called" "$work/exported" >"$work/forgotten"
comm -23 "$work/called" "$work/exported" >"$work/unknown"
[ -s "$work/forgotten" ] && { echo "in no scenario:"; cat "$work/forgotten"; status=1; }
[ -s "$work/unknown" ] && { echo "named in a scenario, not exported:"; cat "$work/unknown"; status=1; }
echo "$(wc -l <"$work/exported") functions"
exit $status
