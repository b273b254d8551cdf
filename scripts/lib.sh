# Shared by the scripts of this folder: what must be installed, and how. To be sourced, by bash.
# Written for Debian 12; elsewhere nothing is installed and the build itself says what it misses.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Debian packages, by need. The library itself needs only the first line; without libxxhash-dev it
# lacks the serving layer.
packages_build=(gcc libc6-dev cmake ninja-build pkg-config libjansson-dev libxxhash-dev)
packages_test=(g++ libcmocka-dev python3 python3-venv binutils)
packages_lint=(clang clang-format clang-tidy)
packages_slow=(valgrind)
packages_docs=(doxygen)

# cross_packages PRESET: adds to $packages what a cross build needs.
cross_packages() {
  local compiler debian
  case $1 in
    neon) compiler=aarch64 debian=arm64 ;;
    s390x) compiler=s390x debian=s390x ;;
    i686) compiler=i686 debian=i386 ;;
  esac
  packages+=("gcc-$compiler-linux-gnu" "libc6-dev-$debian-cross" "libjansson-dev:$debian" "libcmocka-dev:$debian")
  [[ $debian == i386 ]] || packages+=(qemu-user)
}

# Runtimes that the ONNX Runtime provider is tested with, the latest first; and the engine on top.
onnxruntime_versions=(1.32.0 1.29.0 1.23.2)
genai_version=0.18.0

jobs=$(nproc 2>/dev/null || echo 2)
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$jobs}
export CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$jobs}

if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
  bold=$'\e[1m' red=$'\e[31m' green=$'\e[32m' yellow=$'\e[33m' plain=$'\e[0m'
else
  bold='' red='' green='' yellow='' plain=''
fi

title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
warn() { printf '%s%s%s\n' "$yellow" "$*" "$plain" >&2; }
die() {
  printf '%s%s: %s%s\n' "$red" "scripts/$(basename "$0")" "$*" "$plain" >&2
  exit 1
}

# missing_packages NAME...: prints those that are not installed.
missing_packages() {
  local name
  for name in "$@"; do
    dpkg-query -W -f='${db:Status-Status}\n' "$name" 2>/dev/null | grep -q '^installed$' ||
      printf '%s ' "$name"
  done
}

# install_packages NAME...: installs what is missing, as root or through sudo; without either it names
# the missing packages and fails. Names that end in :ARCHITECTURE make that one known to dpkg.
install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    warn "not a Debian system: needs the equivalents of: $*"
    return 0
  fi
  local missing become=()
  missing=$(missing_packages "$@")
  if [[ -z $missing ]]; then
    return 0
  fi
  read -ra missing <<<"$missing"
  if [[ $(id -u) != 0 ]]; then
    command -v sudo >/dev/null ||
      die "these packages are missing: ${missing[*]}
as root: apt-get install ${missing[*]}"
    become=(sudo)
    # Without a terminal nobody can type a password.
    [[ -t 0 ]] || become+=(-n)
  fi
  echo "installing: ${missing[*]}"
  local quiet=(-qq -o Dpkg::Use-Pty=0)
  local name
  for name in "${missing[@]}"; do
    [[ $name != *:* ]] || "${become[@]}" dpkg --add-architecture "${name#*:}"
  done
  # A list that cannot be had (of another architecture, say) need not be one that is needed.
  "${become[@]}" apt-get "${quiet[@]}" update || warn "not every list of packages could be brought up to date"
  "${become[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get "${quiet[@]}" install -y --no-install-recommends "${missing[@]}" >/dev/null ||
    die "could not install: ${missing[*]}"
}

# virtual_environment FOLDER REQUIREMENTS...: makes it, or makes it anew if the requirements changed.
virtual_environment() {
  local folder=$1 file
  shift
  if ! cat "$@" | cmp -s - "$folder/requirements.installed"; then
    rm -rf "$folder"
    python3 -m venv "$folder"
    for file in "$@"; do
      "$folder/bin/python" -m pip install --quiet --disable-pip-version-check -r "$file"
    done
    cat "$@" >"$folder/requirements.installed"
  fi
}

# python_environment: the virtual environment of the tests; sets $python.
python_environment() {
  virtual_environment "$repository/build/venv" "$repository/tests/requirements.txt"
  python=$repository/build/venv/bin/python
}

# onnxruntime_environment VERSION: makes or refreshes a virtual environment with that runtime, sets $python,
# and $runtime, the runtime's library. The latest version also gets what the GenAI example needs.
onnxruntime_environment() {
  local folder=$repository/build/onnxruntime/venv-$1 wanted
  wanted=$(cat "$repository/tests/onnxruntime/requirements.txt" && echo "onnxruntime==$1")
  [[ $1 != "${onnxruntime_versions[0]}" ]] || wanted+=$'\n'"onnxruntime-genai==$genai_version"
  python=$folder/bin/python
  if [[ $wanted != "$(cat "$folder/requirements.installed" 2>/dev/null)" ]]; then
    rm -rf "$folder"
    python3 -m venv "$folder"
    "$python" -m pip install --quiet --disable-pip-version-check -r <(echo "$wanted")
    echo "$wanted" >"$folder/requirements.installed"
  fi
  runtime=$(echo "$folder"/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*)
}

# build PRESET [TARGET...]: configures and builds into build/PRESET.
build() {
  local preset=$1 target targets=()
  shift
  for target in "$@"; do
    targets+=(--target "$target")
  done
  cmake --preset "$preset" -S "$repository" >"$repository/build/$preset.configure.log" 2>&1 || {
    cat "$repository/build/$preset.configure.log" >&2
    return 1
  }
  cmake --build "$repository/build/$preset" "${targets[@]}"
}
