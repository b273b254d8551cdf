#!/bin/bash
# The folders are the architecture: checks which folder includes which, that headers do not include
# each other in circles, and that base names are unique.
#   include_edges.sh SOURCE_DIR
set -u
cd "$1" || exit 1
failed=0
fail() { echo "$1"; failed=1; }

# What each folder may include besides itself. `public` is include/quire.
may_include() {
  case $1 in
    include/quire) echo '' ;;
    runtime/core) echo public ;;
    runtime/expr) echo public runtime/core ;;
    runtime/manifest) echo public runtime/core runtime/expr ;;
    runtime/plan) echo public runtime/core runtime/expr runtime/manifest ;;
    runtime/template) echo public runtime/core runtime/expr runtime/manifest runtime/plan ;;
    runtime/device/webgpu) # its schedule passes are run by the host
      echo public runtime/core runtime/expr runtime/manifest runtime/plan runtime/template \
        runtime/device runtime/device/cpu ;;
    runtime/device | runtime/device/*)
      echo public runtime/core runtime/expr runtime/manifest runtime/plan runtime/template \
        runtime/device ;;
    kernels/common) echo public runtime/core ;;
    kernels/*) echo public runtime/core kernels/common ;;
    library)
      echo public runtime/core runtime/expr runtime/manifest runtime/plan runtime/template \
        runtime/device ;;
    *) echo public ;; # tools, examples, integrations, bindings, serving
  esac
}

# Libraries from outside, and the only places that may see them.
may_use() { # HEADER FILE
  case $1 in
    webgpu.h) [[ $2 == runtime/device/webgpu/* || $2 == examples/06_webgpu_encoder.c ]] ;;
    jansson.h) [[ $2 == runtime/manifest/* || $2 == runtime/plan/* || $2 == tools/quire/* || $2 == examples/hybrid_lm/lm_weights.c ]] ;;
    pthread.h) [[ $2 == runtime/device/* || $2 == library/call_cache.c || $2 == examples/* || $2 == tools/* || $2 == integrations/* ]] ;;
    dlfcn.h) [[ $2 == runtime/device/webgpu/webgpu_procs.c || $2 == examples/* ]] ;;
    *) true ;;
  esac
}

mapfile -t files < <(find include runtime kernels library tools examples integrations bindings serving \
  -name '*.[ch]' -type f 2>/dev/null | sort)
[ "${#files[@]}" -gt 20 ] || { echo "only ${#files[@]} files found in $1"; exit 1; }

# Base names: where each is.
declare -A folder_of base_folder
for file in "${files[@]}"; do
  name=${file##*/} folder=${file%/*}
  [ "$folder" = include/quire ] && continue
  [ -z "${folder_of[$name]:-}" ] || fail "$name is in ${folder_of[$name]} and in $folder"
  folder_of[$name]=$folder
  base=${name%.*}
  [ "${base_folder[$base]:-$folder}" = "$folder" ] ||
    fail "$base.* is in ${base_folder[$base]} and in $folder"
  base_folder[$base]=$folder
done

edges=0
while IFS=: read -r file kind header; do
  folder=${file%/*}
  if [ "$kind" = '<' ]; then
    may_use "$header" "$file" || fail "$file: must not include <$header>"
    continue
  fi
  edges=$((edges + 1))
  case $header in
    quire/*)
      [ -f "include/$header" ] || fail "$file: there is no include/$header"
      continue ;;
    */*) fail "$file: \"$header\": headers are named without their folder"; continue ;;
  esac
  target=${folder_of[$header]:-}
  if [ -z "$target" ]; then
    fail "$file: no header $header in the tree"
  elif [ "$target" != "$folder" ]; then
    allowed=" $(may_include "$folder") "
    # The library sees of the kernels what registers them.
    [[ $folder == library && $target == kernels/* && $header == *_kernels.h ]] && continue
    [[ $allowed == *" $target "* ]] || fail "$file: $folder must not include $target ($header)"
  fi
done < <(grep -HoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"][^>"]+[>"]' "${files[@]}" |
  sed -E 's/^([^:]+):.*include[[:space:]]*([<"])([^>"]+)[>"]$/\1:\2:\3/')
[ "$edges" -gt 20 ] || fail "only $edges includes found"

# Circles: tsort names them. Public headers are known by quire/NAME, all others by NAME.
circles=$(printf '%s\n' "${files[@]}" | grep '\.h$' | xargs grep -HoE '^#include "[^"]+"' |
  awk -F'[:"]' '{
    from = $1
    if (from ~ /^include\//) { sub(/^include\//, "", from) } else { sub(/.*\//, "", from) }
    print from, $3
  }' | tsort 2>&1 >/dev/null)
[ -z "$circles" ] || fail "headers include each other in a circle: $circles"

echo "${#files[@]} files, $edges includes"
exit $failed
