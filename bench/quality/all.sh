#!/usr/bin/env bash
# Both comparisons of this folder, one after the other, as far as MINUTES reach; the same call goes on where it ended. Run by `make quality`.
#
#   MODEL    folder of the pretrained model, SmolLM2-135M if not given     TASKS      preset of synthetic.py (h200)
#   OUT      folder of results (docs/measurements)                        CONTINUED  preset of continued_training.py (h200)
#   SCRATCH  folder of data and models (build/quality)                    SEEDS      (1,2,3)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly python=build/env/bin/python out=${OUT:-docs/measurements} scratch=${SCRATCH:-build/quality}
readonly tasks=${TASKS:-h200} continued=${CONTINUED:-h200} seeds=${SEEDS:-1,2,3} minutes=${MINUTES:-9}
readonly model=${MODEL:-${OOMB_HOME:-$HOME/.cache/oomb}/smollm2-135m}
machine=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1 || true)

[[ -n ${MODEL:-} ]] || "$python" tools/make_smollm2.py --out "$model"
"$python" bench/quality/continued_training.py --preset "$continued" --model "$model" --scratch "$scratch/continued" --seeds "$seeds" \
    --minutes "$minutes" --machine "one ${machine:-CPU}" --out "$out/continued-training-$continued.json"
left=$((minutes - SECONDS / 60))
if ((left > 0)); then
    "$python" bench/quality/synthetic.py --preset "$tasks" --scratch "$scratch/synthetic" --seeds "$seeds" \
        --minutes "$left" --machine "one ${machine:-CPU}" --out "$out/synthetic-tasks-$tasks.json"
fi
