#!/usr/bin/env bash
# The steps of sanitizer_gpu_test.cpp under NVIDIA's compute-sanitizer:
#     compute_sanitizer.sh memcheck|racecheck|initcheck TEST_PROGRAM
# initcheck sees little: the backend zeroes its whole arena, so that all of it counts as written.
# Exit code 77: the tool is not installed (CTest then skips the test).
set -euo pipefail

tool=${1:?usage: compute_sanitizer.sh memcheck|racecheck|initcheck TEST_PROGRAM}
program=${2:?usage: compute_sanitizer.sh memcheck|racecheck|initcheck TEST_PROGRAM}
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
if [[ ! -x $sanitizer ]]; then
    echo 'compute-sanitizer is not installed: skipped'
    exit 77
fi

# API errors are not reported: our own calls are checked where they are made, and the libraries' may fail on purpose.
arguments=(--tool "$tool" --error-exitcode 1 --report-api-errors no)
# Every kernel under memcheck, for the libraries' get our pointers; else ours alone, which have "oomb" in their mangled
# names: what cuBLASLt and cuDNN do inside is not ours to change.
ours=(--kernel-name kernel_substring=oomb)
cases='*'
case $tool in
memcheck) ;;
initcheck) arguments+=("${ours[@]}") ;;
racecheck)
    # Not bf16: there racecheck itself breaks down in cuBLASLt ("The Sanitizer failed to handle a hardware exception",
    # then illegal accesses), whichever kernels it is told to check.
    arguments+=("${ours[@]}")
    cases='*fp32*'
    ;;
*)
    echo "compute_sanitizer.sh: $tool: allowed is memcheck, racecheck or initcheck" >&2
    exit 2
    ;;
esac
exec "$sanitizer" "${arguments[@]}" "$program" --source-file='*sanitizer_gpu_test.cpp' --test-case="$cases"
