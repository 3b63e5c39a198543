#!/usr/bin/env bash
# Runs the tests of a built preset that this machine can run: setup/test.sh PRESET [further arguments of ctest]
# Left out: label `gpu` where there is no GPU, labels `slow`, `cli` and `python` under the sanitizers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:?usage: setup/test.sh PRESET [further arguments of ctest]}
shift

left_out=()
if ! nvidia-smi -L 2>/dev/null | grep -q '^GPU '; then
    echo '==> no GPU here: tests labelled gpu are left out'
    left_out+=(gpu)
fi
if [[ $preset == asan ]]; then
    echo '==> sanitizers: the C++ tests, but for those labelled slow and cli'
    left_out+=(slow cli python)
fi

arguments=(--preset "$preset" --parallel "${JOBS:-$(nproc)}")
if ((${#left_out[@]} > 0)); then
    arguments+=(--label-exclude "^($(IFS='|' && echo "${left_out[*]}"))\$")
fi
exec build/env/bin/ctest "${arguments[@]}" "$@"
