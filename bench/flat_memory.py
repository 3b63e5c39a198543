#!/usr/bin/env python3
"""Does GPU memory stay the same whatever the context, and over many steps?

    python bench/flat_memory.py --train build/bin/oomb-train --out PATH [--contexts 64K,128K,256K,512K] [--steps 50]

The Qwen2.5-7B shape cut to two layers, lean (every K/V page on the host, nothing kept), random weights and tokens: what
could grow with the context grows as in the whole model, in a fourteenth of its time. For each context the smallest
--gpu-memory that the planner accepts is bisected, and one step run within it; then many steps at the first context.
Memory is what the driver counts for the process, and the process's own resident bytes. Fails when GPU memory grows by
more than 1 MB per 10K tokens, or at all from step to step after the second, or exceeds the bisected budget. Writes
PATH.json and PATH.md.
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
NO_FIT = 3  # exit code


def smallest_budget(train, model, context, guess):
    """Bytes of the least --gpu-memory under which the run is planned; right at once where `guess` is."""
    def fits(budget):
        command = [str(train), *LEAN, "--model", str(model), "--context", context, "--gpu-memory", str(budget), "--dry-run"]
        code = subprocess.run(command, capture_output=True).returncode
        if code not in (0, NO_FIT):
            sys.exit(f"{' '.join(command)}: exit {code}")
        return code == 0

    too_small, enough = 0, 139 * 2**30
    if guess is not None:
        too_small, enough = (guess - 1, guess) if fits(guess) and not fits(guess - 1) else (too_small, enough)
    while enough - too_small > 1:
        middle = (too_small + enough) // 2
        too_small, enough = (too_small, middle) if fits(middle) else (middle, enough)
    return enough


def run(train, model, folder, context, steps, budget):
    metrics = folder / f"{context}-{steps}.jsonl"
    command = [str(train), *LEAN, "--model", str(model), "--context", context, "--steps", str(steps), "--gpu-memory",
               str(budget), "--metrics", str(metrics)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return [json.loads(line) for line in metrics.read_text().splitlines()]


def page(result):
    return "\n".join([
        "# GPU memory over contexts and steps, on one H200", "",
        f"The Qwen2.5-7B shape cut to {result['layers']} layers, lean: `--offload host --hbm-pages ring --keep none`, chunks of 8K, windows of 32K,",
        "random weights and tokens. For each context the smallest `--gpu-memory` that the planner accepts was bisected, to the byte, and a step",
        "run within it. GPU memory is what the driver counts for the process.", "",
        f"- Command: `bench/flat_memory.py`; {result['oomb']}.", "",
        "| context | smallest budget | driver, bytes | process resident | seconds |", "| --- | --- | --- | --- | --- |",
        *[f"| {row['context']} | {row['budget_bytes']:,} | {row['driver_bytes']:,} | {row['resident_bytes'] / 2**30:.2f} GiB | "
          f"{row['seconds']:.2f} |" for row in result["rows"]], "",
        f"Growth: {result['growth_bytes_per_10k_tokens']:,.0f} bytes per 10K tokens. Over {result['steps']} steps at "
        f"{result['rows'][0]['context']}: GPU {result['driver_growth_over_steps']:+,} bytes, process "
        f"{result['resident_growth_over_steps']:+,} bytes resident, from the second step on."]) + "\n"


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
            budget = smallest_budget(train, model, context, rows[-1]["budget_bytes"] if rows else None)
            step = run(train, model, folder, context, 1, budget)[-1]
            rows.append({"context": context, "tokens": step["tokens"], "budget_bytes": budget,
                         "driver_bytes": step["peak_bytes"]["driver"],
                         "host_bytes": step["peak_bytes"]["host"], "resident_bytes": step["peak_bytes"]["resident"],
                         "seconds": step["seconds"]["total"]})
            print(f"{context}: GPU {rows[-1]['driver_bytes']:,} bytes within a budget of {budget:,}, "
                  f"{rows[-1]['seconds']:.2f} s", flush=True)
        steps = run(train, model, folder, contexts[0], arguments.steps, rows[0]["budget_bytes"])
    span = rows[-1]["tokens"] - rows[0]["tokens"]
    growth = (rows[-1]["driver_bytes"] - rows[0]["driver_bytes"]) / span * 1e4 if span else 0.0
    after = [step["peak_bytes"] for step in steps[1:]] or [steps[0]["peak_bytes"]]
    version = subprocess.run([str(train), "--version"], capture_output=True, text=True).stdout
    result = {"oomb": " ".join(version.split()), "layers": LAYERS, "rows": rows, "growth_bytes_per_10k_tokens": growth, "steps": len(steps),
              "driver_growth_over_steps": after[-1]["driver"] - after[0]["driver"],
              "resident_growth_over_steps": after[-1]["resident"] - after[0]["resident"]}
    arguments.out.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    arguments.out.with_suffix(".md").write_text(page(result))
    print(f"growth {growth:,.0f} bytes per 10K tokens; over {len(steps)} steps GPU {result['driver_growth_over_steps']:,} bytes, "
          f"process {result['resident_growth_over_steps']:,} bytes")
    if growth > MOST_GROWTH or result["driver_growth_over_steps"] > 0:
        sys.exit("GPU memory grows")
    if any(row["driver_bytes"] > row["budget_bytes"] for row in rows):
        sys.exit("GPU memory exceeds the budget")


if __name__ == "__main__":
    main()
