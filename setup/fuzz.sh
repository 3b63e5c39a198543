#!/usr/bin/env bash
# Builds the fuzz targets (tests/fuzz) and runs each for a while, two at a time.
#
#   setup/fuzz.sh [SECONDS] [TARGET...]      (default: 60 seconds, all targets)
#
# Inputs found interesting stay in build/fuzz/corpus; what breaks a reader ends up in build/fuzz/crashes, and its log in
# build/fuzz/logs. Exit codes: 0 nothing broke, 1 something did, 77 there is no Clang with libFuzzer here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-60}
shift || true
targets=("$@")
((${#targets[@]})) || targets=(model_config hardware_profile run_flags trace profile replay page_trace locality npy sidecar safetensors weight_index checkpoint)

if ! echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    clang++-16 -fsanitize=fuzzer,address -x c++ - -o /dev/null 2>/dev/null; then
    echo 'setup/fuzz.sh: clang++-16 with libFuzzer is not here (Debian: clang-16, libclang-rt-16-dev): left out'
    exit 77
fi

build/env/bin/cmake -S tests/fuzz -B build/fuzz -G Ninja -DCMAKE_MAKE_PROGRAM="$PWD/build/env/bin/ninja" \
    -DCMAKE_CXX_COMPILER=clang++-16 -DCMAKE_BUILD_TYPE=None >/dev/null
build/env/bin/cmake --build build/fuzz --parallel "${JOBS:-2}"
build/env/bin/python tests/fuzz/seeds.py build/fuzz/seeds
mkdir -p build/fuzz/crashes build/fuzz/logs

fuzz() {
    local name=$1 log=build/fuzz/logs/$1.log
    local -a words=()
    mkdir -p "build/fuzz/corpus/$name"
    [[ -e tests/fuzz/$name.dict ]] && words=("-dict=tests/fuzz/$name.dict")
    if "build/fuzz/${name}_fuzz" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=2048 -max_len=16384 "${words[@]}" \
        -artifact_prefix="build/fuzz/crashes/$name-" "build/fuzz/corpus/$name" "build/fuzz/seeds/$name" >"$log" 2>&1; then
        echo "fuzz: $name: nothing broke ($(grep -c . <(ls "build/fuzz/corpus/$name")) inputs; $(tail -n 1 "$log"))"
    else
        echo "fuzz: $name: broken, see $log"
        grep -m 3 -E 'ERROR|error:|SUMMARY|what' "$log" || true
        return 1
    fi
}
export -f fuzz
export seconds
printf '%s\n' "${targets[@]}" | xargs -P 2 -I{} bash -c 'fuzz {}' || exit 1
