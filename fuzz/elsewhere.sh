#!/usr/bin/env bash
# Coverage-guided fuzzing on a machine that has Python with NumPy, CMake and a compiler, but no network.
#
#   fuzz/elsewhere.sh prepare VERSION         here: what is missing there, for that version of Python → build/elsewhere
#   fuzz/elsewhere.sh run MINUTES [TARGET…]   there: compile, and run all targets or some, on all cores
set -euo pipefail
cd "$(dirname "$0")/.."
carried=build/elsewhere

case $1 in
prepare)
  rm -rf $carried
  python3 -m pip install --quiet --target $carried --python-version "$2" --only-binary=:all: --no-deps \
    atheris coverage nanobind narwhals hypothesis sortedcontainers
  # What is not needed there, and most of what is in the rest: names for debuggers.
  rm -f $carried/{asan,ubsan,ubsan_cxx}_with_fuzzer.so
  strip --strip-debug $carried/atheris/*.so $carried/*.a
  du -sh $carried
  ;;
run)
  minutes=$2
  shift 2
  PYTHONPATH=$PWD/$carried:${PYTHONPATH:-}
  cmake -S . -B build/fuzz -DCMAKE_BUILD_TYPE=Release -DLTS_SANITIZE=address,undefined \
    -DLTS_FUZZER="$PWD/$carried/libclang_rt.fuzzer_no_main.a"
  cmake --build build/fuzz -j "$(nproc)"
  cmake -S . -B build/module -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE="$(command -v python3)" \
    -Dnanobind_DIR="$PWD/$carried/nanobind/cmake"
  cmake --build build/module -j "$(nproc)"
  cp build/module/_core*.so src/linear_treeshap/
  PYTHONPATH=$PWD/src:$PYTHONPATH python3 -m fuzz.guided --minutes "$minutes" "$@"
  ;;
esac
