#!/usr/bin/env python3
"""A dense step with attention by cuDNN and by our own kernels, one after the other: seconds of attention, and of the step.

    python bench/own_attention.py [--bin build/bin] [--contexts 64K] [--layers 8] [--out docs/measurements/own-attention-h200.json]
    python bench/own_attention.py --page        # the page alone, from the JSON

The Qwen2.5-7B shape cut to --layers, every page on the host, gradients without AdamW, random weights and tokens, with --trace; the second of two
steps counts. Plain and --deterministic; cuDNN and own take turns, --rounds of them, and the medians are kept.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from measure_steps import ROOT, gpu_state
from trace_by_kind import read_step, summary

STEP = "--synthetic --device cuda --no-optimizer --chunk 8K --window 32K --keep none --offload host --hbm-pages ring --steps 2"
KERNELS = ("cudnn", "own")
MODES = {"plain": [], "deterministic": ["--deterministic"]}
KINDS = ("attention", "attention_backward", "merge")


def run(*words):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def measured(train, words, folder):
    trace, metrics = folder / "step.trace", folder / "metrics.jsonl"
    for path in (trace, metrics):
        path.unlink(missing_ok=True)
    run(train, *words, "--trace", trace, "--metrics", metrics)
    last = json.loads(metrics.read_text().splitlines()[-1])
    by_kind = {row["kind"]: row["seconds"] for row in summary(read_step(trace, None)[1])["kinds"]}
    return {"step": last["seconds"]["total"], **{kind: by_kind.get(kind, 0.0) for kind in KINDS}, "driver_bytes": last["peak_bytes"]["driver"],
            "loss": last["loss"], "grad_norm": last["grad_norm"], "clock_mhz": last["device"]["clock_mhz"], "watts": last["device"]["watts"]}


def row_of(arguments, context, mode):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "config.json"
        config.write_text(json.dumps({**json.loads((ROOT / "models/qwen2.5-7b.json").read_text()), "num_hidden_layers": arguments.layers}))
        words = [*STEP.split(), "--model", config, "--context", context, *MODES[mode]]
        runs = {kernels: [] for kernels in KERNELS}
        for number in range(arguments.rounds):
            for kernels in KERNELS[:: 1 if number % 2 == 0 else -1]:
                runs[kernels].append(measured(arguments.bin / "oomb-train", [*words, "--attention-kernels", kernels], folder))
                print(f"{context}, {mode}, {kernels}: {runs[kernels][-1]['step']:.3f} s", flush=True)
    return {"context": context, "mode": mode, "layers": arguments.layers, "runs": runs,
            "command": " ".join(map(str, ["oomb-train", *words])).replace(f"{folder}/", "")}


def cells(row):
    def median(kernels, key):
        return statistics.median(one[key] for one in row["runs"][kernels])

    found = [row["context"], str(row["layers"]), row["mode"]]
    for key in ("step", "attention", "attention_backward"):
        library, own = median("cudnn", key), median("own", key)
        if key == "attention":
            library += median("cudnn", "merge")
        found.append(f"{library:.3f} s / {own:.3f} s, {library / own:.3f} x")
    return [*found, " / ".join(f"{median(kernels, 'driver_bytes') / 2**30:.2f} GiB" for kernels in KERNELS),
            " / ".join(f"{median(kernels, 'watts'):.0f} W" for kernels in KERNELS)]


def page(result):
    head = ["context", "layers", "", "step", "attention and merges", "backward of attention", "GPU memory", "card"]
    rows = [cells(row) for row in result["rows"].values()]
    return "\n".join([
        "# Dense steps on one H200: attention by cuDNN and by our own kernels", "",
        "The Qwen2.5-7B shape cut to some layers, every page on the host, chunks of 8K, windows of 32K, nothing kept, gradients without AdamW, random",
        "weights and tokens; times of the second step, which is traced. *cuDNN / own*, and how much faster own is.", "",
        *(f"- Command: `{row['command']} --attention-kernels cudnn|own`." for row in result["rows"].values()),
        f"- Machine: {result['machine']}; {result['oomb']}.", "",
        "| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=ROOT / "build/bin", type=Path, help="folder of the programs")
    parser.add_argument("--contexts", default="64K", help="(default: %(default)s)")
    parser.add_argument("--layers", type=int, default=8, help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--out", default=ROOT / "docs/measurements/own-attention-h200.json", type=Path)
    parser.add_argument("--page", action="store_true", help="make the page from the JSON and stop")
    arguments = parser.parse_args()
    result = json.loads(arguments.out.read_text()) if arguments.out.exists() else {"rows": {}}
    for context in [] if arguments.page else arguments.contexts.split(","):
        for mode in MODES:
            row = row_of(arguments, context, mode)
            result["rows"][f"{context}, {mode}, {row['layers']} layers"] = row
            result["machine"] = "; ".join((gpu_state() or "not said").splitlines())
            result["oomb"] = " ".join(run(arguments.bin / "oomb-train", "--version").split())
            arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    if not result["rows"]:
        sys.exit(f"{arguments.out}: no row yet")
    arguments.out.with_suffix(".md").write_text(page(result))


if __name__ == "__main__":
    main()
