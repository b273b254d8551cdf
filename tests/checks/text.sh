#!/bin/bash
# No file of the project names a path of the machine that it was written on, or the host of a package
# registry (which would pin everybody to it).
#   text.sh SOURCE_DIR
set -u
cd "$1" || exit 1
# The brackets keep this file from finding itself.
paths='(^|[^[:alnum:]_./-])/([w]ork|[h]ome|[m]nt|[U]sers)/|\.\./[s]hared/'
hosts='[p]ypi\.org|[p]ythonhosted\.org|[d]eb\.debian\.org|[r]egistry\.npmjs|[s]tatic\.crates\.io|[p]roxy\.golang|[c]onda\.anaconda'

if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  mapfile -d '' -t files < <(git ls-files -z -- ':!.ci') # .ci is this project's own machine
else
  mapfile -d '' -t files < <(find . -type f -not -path './build*' -print0)
fi
[ "${#files[@]}" -gt 20 ] || { echo "only ${#files[@]} files found"; exit 1; }
if grep -nIE "$paths|$hosts" -- "${files[@]}"; then
  echo "these lines name a place that only one machine has"
  exit 1
fi
echo "${#files[@]} files"
