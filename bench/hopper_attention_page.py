#!/usr/bin/env python3
"""Makes the page of attention on Hopper from the JSON of hopper_attention_bench, one or more runs:

    hopper_attention_bench --benchmark_out=run.json --benchmark_out_format=json
    bench/hopper_attention_page.py docs/measurements/hopper-attention-h200 run.json ...
"""

import json
import subprocess
import sys
from pathlib import Path

KERNELS = {"forward": ["cuDNN", "simple", "specialised"], "backward": ["cuDNN", "simple", "specialised", "ordered"]}


def readings(reports):
    """(window, pace, pass) -> kernel -> benchmark; window is "28/4 x 128, over 16384"."""
    found = {}
    for report in reports:
        for benchmark in report["benchmarks"]:
            window, pace, direction, kernel = benchmark["name"].split("/iterations:")[0].rsplit(", ", 3)
            found.setdefault((window, pace, direction), {})[kernel] = benchmark
    return found


def cell(benchmark):
    if benchmark is None:
        return ""
    return benchmark["error_message"] if benchmark.get("error_occurred") else f"{benchmark['TFLOP/s']:.0f}"


def table(found, direction):
    kernels = KERNELS[direction]
    lines = [f"| {direction} | | {' | '.join(kernels)} | off cuDNN |", "| --- " * (len(kernels) + 3) + "|"]
    for (window, pace, passed), by_kernel in found.items():
        if passed == direction:
            off = max((b.get("off cuDNN", 0) for b in by_kernel.values()), default=0)
            cells = [cell(by_kernel.get(kernel)) for kernel in kernels]
            lines.append(f"| {window} | {pace} | {' | '.join(cells)} | {f'{off:.1e}' if off else ''} |")
    return [*lines, ""]


def main(out, *sources):
    reports = [json.loads(Path(source).read_text()) for source in sources]
    root = Path(__file__).resolve().parents[1]
    commit = subprocess.run(["git", "-C", root, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True).stdout.strip()
    kept = {"commit": commit, "date": reports[0]["context"]["date"], "benchmarks": [b for r in reports for b in r["benchmarks"]]}
    Path(out).with_suffix(".json").write_text(json.dumps(kept, indent=2) + "\n")
    found = readings(reports)
    lines = ["# Attention on one H200: ours beside cuDNN", "",
             "TFLOP/s of 8,192 queries over one window (heads/KV heads x head_dim, keys), random data; `bench/hopper_attention_bench.cpp` "
             "says what burst and sustained are, [../hopper-attention.md](../hopper-attention.md) what was expected.", "",
             f"Commit {commit}, {kept['date'][:10]}.", "", *table(found, "forward"), *table(found, "backward")]
    Path(out).with_suffix(".md").write_text("\n".join(lines))


if __name__ == "__main__":
    main(*sys.argv[1:])
