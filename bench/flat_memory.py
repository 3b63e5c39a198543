#!/usr/bin/env python3
"""Does GPU memory stay the same whatever the context, and over many steps?

    python bench/flat_memory.py --train build/bin/oomb-train --out FILE.json [--contexts 64K,128K,256K,512K] [--steps 50]

The Qwen2.5-7B shape cut to two layers, lean (every K/V page on the host, nothing kept), random weights and tokens: what
could grow with the context grows as in the whole model, in a fourteenth of its time. One step at each context; then many
steps at the first. Memory is what the driver counts for the process, and the process's own resident bytes. Fails when
GPU memory grows by more than 1 MB per 10K tokens, or at all from step to step after the second.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LEAN = ["--synthetic", "--no-optimizer", "--device", "cuda", "--chunk", "8K", "--window", "32K", "--offload", "host",
        "--hbm-pages", "ring", "--keep", "none"]
MOST_GROWTH = 1e6  # bytes per 10K tokens
LAYERS = 2


def run(train, model, folder, context, steps):
    metrics = folder / f"{context}-{steps}.jsonl"
    command = [str(train), *LEAN, "--model", str(model), "--context", context, "--steps", str(steps), "--metrics", str(metrics)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return [json.loads(line) for line in metrics.read_text().splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--contexts", default="64K,128K,256K,512K")
    parser.add_argument("--steps", type=int, default=50)
    arguments = parser.parse_args()
    train, contexts = arguments.train.resolve(), arguments.contexts.split(",")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = folder / "config.json"
        config = json.loads((ROOT / "models/qwen2.5-7b.json").read_text())
        model.write_text(json.dumps({**config, "num_hidden_layers": LAYERS}))
        rows = []
        for context in contexts:
            step = run(train, model, folder, context, 1)[-1]
            rows.append({"context": context, "tokens": step["tokens"], "driver_bytes": step["peak_bytes"]["driver"],
                         "host_bytes": step["peak_bytes"]["host"], "resident_bytes": step["peak_bytes"]["resident"],
                         "seconds": step["seconds"]["total"]})
            print(f"{context}: GPU {rows[-1]['driver_bytes']:,} bytes, {rows[-1]['seconds']:.2f} s", flush=True)
        steps = run(train, model, folder, contexts[0], arguments.steps)
    span = rows[-1]["tokens"] - rows[0]["tokens"]
    growth = (rows[-1]["driver_bytes"] - rows[0]["driver_bytes"]) / span * 1e4 if span else 0.0
    after = [step["peak_bytes"] for step in steps[1:]] or [steps[0]["peak_bytes"]]
    result = {"layers": LAYERS, "rows": rows, "growth_bytes_per_10k_tokens": growth, "steps": len(steps),
              "driver_growth_over_steps": after[-1]["driver"] - after[0]["driver"],
              "resident_growth_over_steps": after[-1]["resident"] - after[0]["resident"]}
    arguments.out.write_text(json.dumps(result, indent=1))
    print(f"growth {growth:,.0f} bytes per 10K tokens; over {len(steps)} steps GPU {result['driver_growth_over_steps']:,} bytes, "
          f"process {result['resident_growth_over_steps']:,} bytes")
    if growth > MOST_GROWTH or result["driver_growth_over_steps"] > 0:
        sys.exit("GPU memory grows")


if __name__ == "__main__":
    main()
