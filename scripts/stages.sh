# The stages of scripts/test, which sources this file: stage_NAME runs in a subshell under `set -e`, and
# counts its tests by single, run_ctest and record_junit. `stages` holds the names of all that will run.

# run_pytest NAME [arguments]: the oracle's tests, against the optimised command line.
run_pytest() {
  local name=$1 status=0
  shift
  build release quire
  python_environment
  QUIRE=$repository/build/release/tools/quire/quire "$python" -m pytest -q -p no:cacheprovider \
    --junitxml "$results/$name.xml" tests/oracle "$@" || status=$?
  record_junit "$name" "$results/$name.xml"
  return "$status"
}

stage_dependencies() {
  local stage packages=("${packages_build[@]}" "${packages_test[@]}")
  [[ ${stages[*]} == "${stages_fast[*]}" ]] || packages+=("${packages_lint[@]}")
  [[ " ${stages[*]} " == *" python "* ]] && packages+=("${packages_docs[@]}")
  for stage in neon s390x i686; do
    [[ " ${stages[*]} " != *" $stage "* ]] || cross_packages "$stage"
  done
  ((optional)) && packages+=("${packages_slow[@]}")
  install_packages "${packages[@]}"
  [[ ${stages[*]} == "${stages_fast[*]}" ]] || python_environment
  # Early, so that every build has the WebGPU backend and the provider.
  [[ " ${stages[*]} " != *" webgpu "* ]] || scripts/webgpu
  [[ " ${stages[*]} " != *" onnxruntime "* ]] || scripts/onnxruntime
}

stage_dev() {
  build dev
  run_ctest dev
}

verify_cases() { (cd tests && "$python" -B -m oracle verify data); }

stage_oracle() {
  python_environment
  single cases-oracle verify_cases
  run_pytest oracle
}

stage_clang() {
  build clang
  run_ctest clang
}

check_format() { git ls-files -z '*.c' '*.h' | xargs -0 clang-format --dry-run -Werror; }

# The files that the clang build compiles, generated ones left out.
compiled_files() {
  grep -o '"file": *"[^"]*"' build/clang/compile_commands.json | sed 's/.*"\(.*\)"$/\1/' |
    grep -v "^$repository/build/" | sort -u |
    if ((changed)); then
      grep -F -x -f <(git diff --name-only HEAD | sed "s|^|$repository/|") || true
    else
      cat
    fi
}

check_tidy() {
  compiled_files | xargs -r -n 2 -P "$jobs" clang-tidy --quiet -p build/clang 2>&1 |
    { grep -v -E '^[0-9]+ warnings? (generated|treated as errors?)|^Suppressed |^Use -header-filter' || true; }
}

stage_lint() {
  local status=0
  single format check_format || status=1
  single readme scripts/readme_example || status=1
  build clang
  single tidy check_tidy || status=1
  return "$status"
}

stage_asan() {
  build asan-ubsan
  run_ctest asan-ubsan
  single cases-asan build/asan-ubsan/tools/quire/quire check tests/data/cases
  QUIRE_SERVING_OPERATIONS=1000000 QUIRE_SEED=$RANDOM \
    single serving-asan build/asan-ubsan/tests/serving/serving_model_test
}

stage_tsan() {
  build tsan
  run_ctest tsan
  TSAN_OPTIONS=halt_on_error=1 \
    single cases-tsan build/tsan/tools/quire/quire check tests/data/cases --threads 3
}

stage_release() {
  build release
  run_ctest release -LE webgpu # which have a stage of their own
  echo "Cost of planning and of a run without its arithmetic (build/release/tools/quire/quire bench plan):"
  build/release/tools/quire/quire bench plan | tee "$logs/bench-plan.txt"
}

# Only what runs kernels: the rest is the same on every processor, and slow under an emulator.
stage_neon() {
  build neon
  run_ctest neon
  build release quire
  single cases-neon-bits python3 -B tests/kernels/differential/case_bits.py tests/data/cases \
    build/release/tools/quire/quire "qemu-aarch64 build/neon/tools/quire/quire" --threads 1,3
}

# test_provider VERSION: both suites of the provider, with one version of the runtime.
test_provider() {
  local version=$1 status=0
  onnxruntime_environment "$version"
  QUIRE_ONNXRUNTIME_LIBRARY=$repository/build/release/integrations/onnxruntime/libquire_onnxruntime.so \
    QUIRE_EXAMPLES=$repository/build/release/examples "$python" -B -m pytest -q -p no:cacheprovider \
    --junitxml "$results/onnxruntime-$version.xml" tests/onnxruntime || status=$?
  record_junit "onnxruntime-$version" "$results/onnxruntime-$version.xml"
  QUIRE_TEST_ONNXRUNTIME=$runtime single "onnxruntime-$version-c" \
    build/release/tests/onnxruntime/ort_plugin_test || status=1
  return "$status"
}

# check_dawn [arguments]: the case files on Dawn, by the command line in a library.
check_dawn() {
  build/dawn/bin/python tests/webgpu/dawn_check.py build/release/tests/webgpu/quire_dawn.so \
    check tests/data/cases --device webgpu --allow-unsupported "$@"
}

# An adapter must be there: everything would be skipped without.
stage_webgpu() {
  local status=0
  scripts/webgpu library driver dawn
  build release
  build release quire_dawn
  build/release/tools/quire/quire devices | tee "$logs/devices.txt"
  single webgpu-adapter grep -q '^webgpu: .*Vulkan' "$logs/devices.txt" || return 1
  single webgpu-tests ctest --preset release -L '^webgpu$' || status=1
  single webgpu-dawn check_dawn || status=1
  single webgpu-dawn-no-subgroups check_dawn --no-subgroups || status=1
  return "$status"
}

# A software adapter gets smaller shaders of its own unless it is told to pass for a GPU.
stage_shaders() {
  local status=0 form
  scripts/webgpu library driver
  build release quire
  for form in "" --no-subgroups; do
    single "webgpu-hardware$form" build/release/tools/quire/quire check tests/data/cases \
      --device webgpu --as-hardware --allow-unsupported $form || status=1
  done
  build release
  single webgpu-faults ctest --preset release -L webgpu_faults || status=1
  return "$status"
}

stage_onnxruntime() {
  local version status=0
  scripts/onnxruntime
  build release
  for version in "${onnxruntime_versions[@]}"; do
    test_provider "$version" || status=1
  done
  return "$status"
}

stage_provider() {
  local status=0
  scripts/onnxruntime
  onnxruntime_environment "${onnxruntime_versions[0]}"
  export QUIRE_TEST_ONNXRUNTIME=$runtime
  build asan-ubsan ort_plugin_test
  UBSAN_OPTIONS=print_stacktrace=1 single provider-asan \
    build/asan-ubsan/tests/onnxruntime/ort_plugin_test || status=1
  build dev ort_plugin_test
  single provider-valgrind valgrind --quiet --leak-check=full --error-exitcode=99 \
    --suppressions=tests/onnxruntime/valgrind.supp \
    build/dev/tests/onnxruntime/ort_plugin_test || status=1
  return "$status"
}

# install_wheel PYTHON: the wheel that was built, in place of an earlier one, with its dependencies.
install_wheel() {
  "$1" -m pip install --quiet --disable-pip-version-check --upgrade build/python/wheel/*.whl
  "$1" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps build/python/wheel/*.whl
}

# documented_code PYTHON PAGE...: runs the code of pages; an installed Quire is there for C.
documented_code() {
  local interpreter=$1 package
  shift
  cmake --install build/release --prefix build/python/prefix >/dev/null
  package=$(dirname "$(find "$PWD/build/python/prefix" -name quire.pc)")
  PKG_CONFIG_PATH=$package LD_LIBRARY_PATH=$(dirname "$package") "$interpreter" docs/run_code.py "$@"
}

# In an environment that has nothing but the wheel and what it asks for.
clean_wheel() {
  rm -rf build/python/clean
  python3 -m venv build/python/clean
  install_wheel build/python/clean/bin/python
  documented_code build/python/clean/bin/python docs/*.md README.md bindings/python/README.md
}

# Continuous batching by onnxruntime-genai, in an environment with stock wheels and ours.
clean_genai() {
  rm -rf build/python/clean-genai
  python3 -m venv build/python/clean-genai
  install_wheel build/python/clean-genai/bin/python
  build/python/clean-genai/bin/python -m pip install --quiet --disable-pip-version-check \
    "onnxruntime==${onnxruntime_versions[0]}" "onnxruntime-genai==$genai_version" onnx
  env -u QUIRE_ONNXRUNTIME_LIBRARY build/python/clean-genai/bin/python -B examples/onnxruntime/genai_engine.py
}

# python_tests NAME PYTHON [arguments]: the package's own tests, as it is installed there.
python_tests() {
  local name=$1 interpreter=$2 status=0
  shift 2
  "$interpreter" -m pytest -q -p no:cacheprovider --junitxml "$results/$name.xml" \
    bindings/python/tests "$@" || status=$?
  record_junit "$name" "$results/$name.xml"
  return "$status"
}

# python_examples PYTHON: 77 means that something optional is not there.
python_examples() {
  local example status
  for example in examples/python/*.py; do
    echo "-- $example"
    status=0
    "$1" "$example" || status=$?
    ((status == 0 || status == 77)) || return 1
  done
}

# With the WebGPU backend and the provider for ONNX Runtime.
python_wheel() {
  scripts/webgpu library
  scripts/onnxruntime
  virtual_environment build/python/venv bindings/python/requirements.txt docs/requirements.txt
  PYTHON=$PWD/build/python/venv/bin/python single python-wheel scripts/python_wheel
}

stage_python() {
  local status=0 interpreter=build/python/venv/bin/python
  install_packages "${packages_docs[@]}"
  build release
  python_wheel
  single python-clean clean_wheel || status=1
  single python-genai clean_genai || status=1
  install_wheel "$interpreter"
  python_tests python "$interpreter" || status=1
  (cd build/python && single python-types venv/bin/python -m mypy --no-error-summary \
    --config-file "$repository/bindings/python/pyproject.toml") || status=1
  (cd build/python && single python-types-user venv/bin/python -m mypy --strict --no-error-summary \
    "$repository/examples/python/continuous_batching.py") || status=1
  single python-examples python_examples "$interpreter" || status=1
  PYTHON=$interpreter single docs scripts/docs || status=1
  return "$status"
}

stage_torch() {
  local status=0 interpreter=build/python/venv-torch/bin/python
  build release
  python_wheel
  virtual_environment build/python/venv-torch bindings/python/requirements.txt \
    bindings/python/requirements-torch.txt
  install_wheel "$interpreter"
  python_tests torch "$interpreter" --hypothesis-profile=slow || status=1
  single torch-examples python_examples "$interpreter" || status=1
  single torch-docs documented_code "$interpreter" docs/tutorial-python.md docs/python.md || status=1
  return "$status"
}

# Every script of the command line's tests, with valgrind in front of each command that they start.
valgrind_scripts() {
  local folder status=0
  mkdir -p build/valgrind
  printf '#!/bin/sh\nexec %s %s "$@"\n' "${valgrind[*]}" "$PWD/build/dev/tools/quire/quire" >build/valgrind/quire
  chmod +x build/valgrind/quire
  for folder in tests/cli/*/; do
    [[ -f $folder/cmd ]] || continue
    echo "-- $folder"
    QUIRE_WEBGPU_LIBRARY=none python3 -B tests/cli/run_script.py build/valgrind/quire "$folder" || status=1
  done
  return "$status"
}

stage_valgrind() {
  local status=0 valgrind=(valgrind --quiet --vgdb=no --leak-check=full --error-exitcode=99)
  build dev quire
  single cases-valgrind "${valgrind[@]}" build/dev/tools/quire/quire check tests/data/cases || status=1
  single scripts-valgrind valgrind_scripts || status=1
  return "$status"
}

# jansson is built with it too: what a library without it writes counts as uninitialised.
stage_msan() {
  local status=0
  scripts/msan_libraries
  build msan
  run_ctest msan || status=1
  single cases-msan build/msan/tools/quire/quire check tests/data/cases || status=1
  return "$status"
}

stage_s390x() {
  build s390x
  run_ctest s390x
  single cases-s390x qemu-s390x build/s390x/tools/quire/quire check tests/data/cases
}

stage_i686() {
  build i686
  run_ctest i686
  single cases-i686 build/i686/tools/quire/quire check tests/data/cases
}

stage_coverage() { single coverage scripts/coverage; }

stage_properties() {
  scripts/webgpu library driver
  export QUIRE_TEST_WEBGPU=1
  run_pytest properties --hypothesis-profile=slow
}

# Each target for some seconds of processor time; what they find stays in build/fuzz/findings.
stage_fuzz() {
  local target status=0
  build fuzz
  for target in manifest expression plan template safetensors call serving isa; do
    single "fuzz_$target" fuzz/run.sh "fuzz_$target" "${QUIRE_FUZZ_SECONDS:-120}" || status=1
  done
  return "$status"
}

stage_isolation() {
  local status=0 test=build/release/tests/isolation/isolation_test
  scripts/webgpu library driver
  build release
  QUIRE_ISOLATION_CALLS=100000 QUIRE_ISOLATION_SEED=$RANDOM single isolation "$test" || status=1
  QUIRE_ISOLATION_CALLS=1000 QUIRE_ISOLATION_DEVICE=webgpu single isolation-webgpu "$test" || status=1
  return "$status"
}

stage_soak() {
  build release
  single soak build/release/bench/soak/soak --seconds "${QUIRE_SOAK_SECONDS:-1200}" --warm-up 180 --seed "$RANDOM"
}
