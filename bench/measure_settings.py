#!/usr/bin/env python3
"""Seconds of steps that no profile was fitted to: three model shapes, contexts of 8K to 512K, on one GPU.

    python bench/measure_settings.py --train build/bin/oomb-train --out FILE.json [--rows NAME,...] [--list]

Random weights and tokens. Every row is a process of its own; its first step warms up and is left out where there are more.
FILE is written after every row; rows that it already holds are not run again, so the same command goes on where it was
stopped. bench/prediction_table.py holds the predictions to it.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from measure_steps import ROOT, gpu_state

GRADIENTS, RING = "--no-optimizer", "--offload host --hbm-pages ring"
# name: model, layers (None: all of them), steps, flags. The first word of a name says the shape.
ROWS = {
    "135m 8K": ("smollm2-135m", None, 6, f"--context 8K --chunk 8K {GRADIENTS}"),
    "135m 16K chunk 2K": ("smollm2-135m", None, 4, f"--context 16K --chunk 2K --window 8K {GRADIENTS} {RING}"),
    "135m 16K deterministic": ("smollm2-135m", None, 4, f"--context 16K --chunk 8K --window 8K {GRADIENTS} --deterministic"),
    "135m 32K chunk 4K kept": ("smollm2-135m", None, 4, f"--context 32K --chunk 4K {GRADIENTS} {RING} --keep xo"),
    "135m 64K step": ("smollm2-135m", None, 3, "--context 64K --chunk 8K --window 32K --offload host --optimizer-states host"),
    "135m 128K chunk 4K": ("smollm2-135m", None, 1, f"--context 128K --chunk 4K --window 64K {GRADIENTS} {RING}"),
    "135m 256K of 10": ("smollm2-135m", 10, 1, f"--context 256K --chunk 8K --window 64K {GRADIENTS}"),
    "135m 512K of 5 kept": ("smollm2-135m", 5, 1, f"--context 512K --chunk 8K --window 64K {GRADIENTS} {RING} --keep xo"),
    "7b 8K chunk 4K": ("qwen2.5-7b", None, 4, f"--context 8K --chunk 4K {GRADIENTS} {RING}"),
    "7b 16K of 14 chunk 2K": ("qwen2.5-7b", 14, 3, f"--context 16K --chunk 2K --window 8K {GRADIENTS} {RING} --keep x"),
    "7b 16K of 14 deterministic": ("qwen2.5-7b", 14, 3, f"--context 16K --chunk 2K --window 8K {GRADIENTS} --deterministic"),
    "7b 32K of 8 step": ("qwen2.5-7b", 8, 3, "--context 32K --chunk 8K --offload host --optimizer-states host --keep xo"),
    "7b 64K of 14": ("qwen2.5-7b", 14, 2, f"--context 64K --chunk 8K --window 16K {GRADIENTS} {RING} --keep o"),
    "7b 128K of 4 chunk 4K": ("qwen2.5-7b", 4, 1, f"--context 128K --chunk 4K --window 32K {GRADIENTS} {RING}"),
    "7b 256K of 4 kept": ("qwen2.5-7b", 4, 1, f"--context 256K --chunk 8K --window 32K {GRADIENTS} --keep xo"),
    "7b 512K of 1": ("qwen2.5-7b", 1, 1, f"--context 512K --chunk 8K --window 64K {GRADIENTS} {RING}"),
    "7b 64K of 7 one chunk": ("qwen2.5-7b", 7, 2, f"--context 64K --chunk 64K {GRADIENTS}"),
    "8b 8K of 12": ("qwen3-8b", 12, 5, f"--context 8K --chunk 8K {GRADIENTS}"),
    "8b 16K of 12 chunk 2K": ("qwen3-8b", 12, 3, f"--context 16K --chunk 2K {GRADIENTS} {RING}"),
    "8b 32K of 8 step": ("qwen3-8b", 8, 3, "--context 32K --chunk 4K --optimizer-states hbm --keep o --held-chunks 1"),
    "8b 64K of 8 bf16": ("llama-3.1-8b", 8, 2, f"--context 64K --chunk 8K --window 64K {GRADIENTS} {RING} --gradient-dtype bf16"),
    "8b 128K of 4 kept": ("llama-3.1-8b", 4, 1, f"--context 128K --chunk 8K --window 32K {GRADIENTS} {RING} --keep x"),
    "8b 256K of 2 chunk 4K": ("qwen3-8b", 2, 1, f"--context 256K --chunk 4K --window 64K {GRADIENTS} {RING}"),
    "8b 512K of 1 kept": ("qwen3-8b", 1, 1, f"--context 512K --chunk 8K --window 64K {GRADIENTS} {RING} --keep xo"),
    "1b 32K of 8": ("llama-3.2-1b", 8, 4, f"--context 32K --chunk 4K --window 16K {GRADIENTS} {RING}"),
    "1b 128K of 8 kept": ("llama-3.2-1b", 8, 1, f"--context 128K --chunk 8K --window 32K {GRADIENTS} --keep xo"),
}
# The shape of Llama 3.2 1B: heads of 64 in a model at the power limit.
LLAMA_1B = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "attention_bias": False,
            "mlp_bias": False, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
            "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "max_position_embeddings": 1 << 20,
            "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
            "vocab_size": 128256}


def config_of(name):
    model, layers, _, _ = ROWS[name]
    config = LLAMA_1B if model == "llama-3.2-1b" else json.loads((ROOT / f"models/{model}.json").read_text())
    return {**config, "num_hidden_layers": layers or config["num_hidden_layers"]}


def plan_flags(name):
    """What oomb-plan takes of the row's command, but the model."""
    return ["--device", "cuda", *ROWS[name][3].split()]


def measure(train, name):
    steps = ROWS[name][2]
    with tempfile.TemporaryDirectory() as folder:
        model, metrics = pathlib.Path(folder) / "config.json", pathlib.Path(folder) / "metrics.jsonl"
        model.write_text(json.dumps(config_of(name)))
        flags = [*plan_flags(name), "--synthetic", "--steps", str(steps)]
        begin = time.monotonic()
        run = subprocess.run([str(train), *flags, "--model", str(model), "--metrics", str(metrics)], capture_output=True,
                             text=True)
        row = {"row": name, "command": " ".join(["oomb-train", *flags, "--model", "CONFIG"]), "config": config_of(name),
               "plan_flags": plan_flags(name), "process_seconds": round(time.monotonic() - begin, 1), "exit": run.returncode}
        if run.returncode != 0:
            return {**row, "error": run.stderr[-2000:]}
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    counted = lines[1:] if len(lines) > 1 else lines
    last = counted[-1]
    return {
        **row,
        "warm": len(lines) > 1,
        "seconds": [round(line["seconds"]["total"], 4) for line in counted],
        "median_seconds": statistics.median(line["seconds"]["total"] for line in counted),
        "tokens": last["tokens"],
        "phases": {phase: statistics.median(line["seconds"][phase] for line in counted)
                   for phase in ("fill", "forward", "backward", "optimizer")},
        "peak_bytes": last["peak_bytes"],
        "copies": last["copies"],
        "watts": last["device"]["watts"],
        "clock_mhz": last["device"]["clock_mhz"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=pathlib.Path, default=ROOT / "build/bin/oomb-train")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--list", action="store_true", help="print the rows and stop")
    arguments = parser.parse_args()
    if arguments.list:
        for name, (model, layers, steps, flags) in ROWS.items():
            print(f"{name}: {model}{f' of {layers} layers' if layers else ''}, {steps} steps, {flags}")
        return
    if not arguments.out:
        parser.error("--out is needed")
    names = [name for name in arguments.rows.split(",") if name]
    if unknown := [name for name in names if name not in ROWS]:
        sys.exit(f"--rows: {', '.join(unknown)} unknown; there are {', '.join(ROWS)}")
    result = {"rows": []}
    if arguments.out.exists():
        result = json.loads(arguments.out.read_text())
        result["rows"] = [row for row in result["rows"] if row["exit"] == 0]
    version = subprocess.run([str(arguments.train), "--version"], capture_output=True, text=True).stdout.strip()
    result.setdefault("sittings", []).append({"oomb": version, "gpu_before": gpu_state()})
    done = {row["row"] for row in result["rows"]}
    for name in (name for name in names if name not in done):
        row = measure(arguments.train.resolve(), name)
        result["rows"].append(row)
        found = f"{row['median_seconds']:.3f} s, {row['clock_mhz']} MHz" if row["exit"] == 0 else row["error"]
        print(f"{name}: {found} ({row['process_seconds']} s in all)", flush=True)
        result["sittings"][-1]["gpu_after"] = gpu_state()
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
