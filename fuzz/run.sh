#!/usr/bin/env bash
# fuzz/run.sh TARGET SECONDS [libFuzzer arguments]: fuzzes for that many seconds of processor time and
# prints the figures. Needs the build of preset `fuzz`; what it learns stays in build/fuzz/corpus/TARGET,
# what it finds in build/fuzz/findings. The exit status is 1 if it found something.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

(($# >= 2)) || {
  sed -n '2,4s/^# //p' "${BASH_SOURCE[0]}" >&2
  exit 2
}
target=$1 seconds=$2
shift 2
build=${QUIRE_FUZZ_BUILD:-build/fuzz}
corpus=build/fuzz/corpus/$target findings=build/fuzz/findings log=build/fuzz/$target.log
mkdir -p "$corpus" "$findings"
: >"$log"

arguments=(-rss_limit_mb=4096 -max_len=65536 -timeout=60 -print_final_stats=1
  -artifact_prefix="$findings/$target-" "$@" "$corpus")
[[ ! -f fuzz/dictionaries/$target ]] || arguments+=(-dict="fuzz/dictionaries/$target")
[[ ! -d fuzz/corpus/$target ]] || arguments+=("fuzz/corpus/$target")
case $target in # what the repository holds anyway
  fuzz_manifest) arguments+=(kernels) ;;
  fuzz_template) arguments+=(kernels/common kernels/paged_decode) ;;
  fuzz_safetensors) arguments+=(tests/data/cases) ;;
esac

# One piece may take as many seconds of the clock as are left to the processor, which is never less.
used=0 status=0 TIMEFORMAT='processor: %U %S'
while ((status == 0)) && left=$(awk -v all="$seconds" -v used="$used" \
  'BEGIN {left = all - used; print left <= 0 ? 0 : left < 10 ? 10 : int(left)}') && ((left > 0)); do
  { time "$build/fuzz/$target" -max_total_time="$left" "${arguments[@]}"; } >>"$log" 2>&1 || status=1
  used=$(awk '/^processor: / {sum += $2 + $3} END {print sum + 0}' "$log")
done

((status == 0)) || tail -n 60 "$log"
awk -v target="$target" -v used="$used" '
  /^stat::number_of_executed_units:/ {executions += $2}
  /cov: [0-9]+ ft: [0-9]+ corp: / {
    for (i = 1; i < NF; i++) {
      if ($i == "cov:") edges = $(i + 1)
      if ($i == "ft:") features = $(i + 1)
      if ($i == "corp:") corpus = $(i + 1)
    }
  }
  /Test unit written to/ && !/slow-unit/ {findings++}
  END {
    printf "%s: %.0f processor seconds, %d executions, %d edges, %d features, corpus %s, %d findings\n",
           target, used, executions, edges, features, corpus, findings
  }' "$log"
exit "$status"
