#!/usr/bin/env python3
"""Makes the page of the gradient steps from what measure_steps.py wrote:

    bench/steps_page.py FILE.json docs/measurements/steps-h200
"""

import json
import sys
from pathlib import Path

GIB = 2**30
# Seconds that the arithmetic alone takes at the rates an H200 sustains on random data at its power limit (GEMM 655,
# attention 592 forward and 525 backward TFLOP/s), nothing else counted: recomputing everything, and nothing.
FLOORS = {"8K": (0.78, 0.62), "32K": (4.9, 3.5), "64K": (13.4, 9.8), "128K": (40.9, 30.7), "256K": (138.0, 106.0),
          "512K": (501.0, 390.0)}


def row_text(row, peers):
    name, context = row["row"].split(maxsplit=1)[1], row["context"]
    if row["exit"] != 0:
        return f"| {context} | {name} | failed | | | | | | |"
    floor = FLOORS[context][0 if name in ("lean", "resident") else 1]
    hidden = row["copies"]["hidden_share"]
    moved = sum(row["copies"][side]["bytes"] for side in ("host_to_device", "device_to_host"))
    peer = peers.get(context)
    beside = f"{peer['sec']:.3g} s, {peer['alloc_GiB']:.1f} GiB" if peer else ""
    seconds = row["median_seconds"]
    return (f"| {context} | {name} | {seconds:.3f} s{'' if row['warm'] else ' (first step)'} | {seconds / floor:.2f} x {floor:g} s | "
            f"{row['tokens_per_second']:,.0f} | {row['peak_bytes']['driver'] / GIB:.1f} GiB | {row['peak_bytes']['host'] / GIB:.1f} GiB | "
            f"{f'{moved / GIB:.1f} GiB, {100 * hidden:.1f} % hidden' if moved > GIB else ''} | {beside} |")


def main(source, out):
    result = json.loads(Path(source).read_text())
    Path(out).with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    peers = {f"{peer['ctx'] // 1024}K": peer for peer in result.get("peer", {}).get("results", []) if peer["status"] == "ok"}
    commit = result["oomb"].split("commit")[1].split()[0]
    by_name = {row["row"]: row for row in result["rows"] if row["exit"] == 0}
    lines = [
        "# Gradient steps of a 7B model on one H200", "",
        "Forward and backward of the Qwen2.5-7B shape (28 layers, 7.6 G parameters), random weights and tokens, bf16 with fp32 weight",
        "gradients, no optimizer, chunks of 8K. Medians of the steps after the first. \"Lean\": every K/V page on the host, nothing kept, GPU",
        "memory does not grow with the context. \"Resident\": the same with all pages in GPU memory. \"Best\": as much kept as 139 GiB hold.", "",
        f"- Command: `bench/measure_steps.py` (the flags of each row are in [{Path(out).name}.json]({Path(out).name}.json)), commit `{commit}`.",
        f"- Machine: {result['gpu_before'].split(',')[0]}, driver {result['gpu_before'].split(',')[1].strip()}; under load "
        f"{result['rows'][-1].get('watts', 0):.0f} W of 700 W and {result['rows'][-1].get('clock_mhz', 0)} MHz.",
        "- GPU memory is what the driver counts for the process, context included. \"Beside\": transformers with activation checkpointing,",
        "  cuDNN attention and cross entropy in row tiles, run right after on the same machine; peak of its allocator, context not included.",
        "- Floor: the arithmetic alone at sustained rates; for lean and resident with everything recomputed, for best with nothing.", "",
        "| context | | seconds | over the floor | tokens/s | GPU memory | host arena | copies | beside |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *[row_text(row, peers) for row in result["rows"]], ""]
    for name, lean in by_name.items():
        resident = by_name.get(name.replace("lean", "resident"))
        if name.endswith("lean") and resident:
            over = lean["median_seconds"] / resident["median_seconds"] - 1
            lines.append(f"Offload at {lean['context']}: every page on the host costs {100 * over:.2f} % over all pages in GPU memory.")
    Path(out).with_suffix(".md").write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
