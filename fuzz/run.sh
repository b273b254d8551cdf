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

arguments=(-rss_limit_mb=4096 -max_len=65536 -timeout=600 -report_slow_units=600 -print_final_stats=1
  -artifact_prefix="$findings/$target-" "$@" "$corpus")
arguments+=("fuzz/corpus/$target")
words=()
case $target in # words, and what the repository holds anyway
  fuzz_expression) words=(expression) ;;
  fuzz_manifest) words=(expression members) && arguments+=(kernels tests/data/lint) ;;
  fuzz_plan) words=(expression members) ;;
  fuzz_template) words=(expression template) && arguments+=(kernels/common kernels/paged_decode) ;;
  fuzz_safetensors) words=(header) && arguments+=(tests/data/cases) ;;
  fuzz_call | fuzz_isa) arguments+=(-len_control=0 -max_len=256) ;; # choices, one a byte
esac
((${#words[@]} == 0)) || {
  (cd fuzz/dictionaries && cat "${words[@]}") >"build/fuzz/$target.dict"
  arguments+=(-dict="build/fuzz/$target.dict")
}

# processor_seconds PID: sets `used`, of user and system; fails once the process has ended.
ticks=$(getconf CLK_TCK)
processor_seconds() {
  local line fields
  read -r line 2>/dev/null <"/proc/$1/stat" || return 1
  read -ra fields <<<"${line##*) }"
  used=$(((fields[11] + fields[12]) / ticks))
}

# The clock does not count (an input may take ten minutes of it), since other programs may hold the
# processor. SIGUSR1 ends libFuzzer in order.
status=0 used=0
"$build/fuzz/$target" "${arguments[@]}" >"$log" 2>&1 &
pid=$!
trap 'kill "$pid" 2>/dev/null || true' EXIT
trap 'exit 1' INT TERM
while processor_seconds "$pid" 2>/dev/null; do
  ((used < seconds)) || kill -USR1 "$pid" 2>/dev/null || true
  sleep 1
done
wait "$pid" || status=1
trap - EXIT

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
    printf "%s: %d processor seconds, %d executions, %d edges, %d features, corpus %s, %d findings\n",
           target, used, executions, edges, features, corpus, findings
  }' "$log"
exit "$status"
