#!/bin/bash
# Reads from built libraries and programs how they are protected when they are loaded: relocations
# read-only and resolved before anything runs, no executable stack, no segment both writable and
# executable, no relocation in code, programs at any address.
#   hardening.sh SOURCE_DIR ELF_FILE...
set -u
shift
failed=0

complain() {
  echo "$file: $*"
  failed=1
}

for file in "$@"; do
  segments=$(readelf -W --segments "$file") && dynamic=$(readelf -W --dynamic "$file") &&
    header=$(readelf -W --file-header "$file") || { complain "cannot be read" && continue; }
  grep -q 'GNU_RELRO' <<<"$segments" || complain "no GNU_RELRO segment"
  grep -Eq '\((BIND_NOW|FLAGS)\).*BIND_NOW|\(BIND_NOW\)|\(FLAGS_1\).*NOW' <<<"$dynamic" ||
    complain "symbols are bound lazily (no BIND_NOW)"
  stack=$(grep 'GNU_STACK' <<<"$segments") || complain "no GNU_STACK segment"
  [[ $stack != *RWE* ]] || complain "the stack is executable"
  ! grep -E '^ +LOAD .* RWE ' <<<"$segments" || complain "a segment is writable and executable"
  ! grep -E '\(TEXTREL\)|\(FLAGS\).*TEXTREL' <<<"$dynamic" || complain "code has relocations (TEXTREL)"
  grep -q 'Type: *DYN' <<<"$header" || complain "is not position-independent"
  # A program says so itself; a library has no interpreter.
  ! grep -q 'INTERP' <<<"$segments" || grep -q '(FLAGS_1).*PIE' <<<"$dynamic" || complain "no PIE"
done
(($#)) || { echo "no files" && exit 1; }
echo "$# files"
exit $failed
