#!/usr/bin/env python3
"""Makes the page of the steps from what measure_steps.py wrote, in one file or in several of one commit:

    bench/steps_page.py FILE.json [FILE.json ...] docs/measurements/steps-h200
"""

import json
import sys
from pathlib import Path

GIB = 2**30
# Seconds that the arithmetic alone takes at the rates an H200 sustains on random data at its power limit (GEMM 655,
# attention 592 forward and 525 backward TFLOP/s), nothing else counted: recomputing everything, and nothing.
FLOORS = {"8K": (0.78, 0.62), "32K": (4.9, 3.5), "64K": (13.4, 9.8), "128K": (40.9, 30.7), "256K": (138.0, 106.0),
          "512K": (501.0, 390.0)}
CONTEXTS = list(FLOORS)
KINDS = ["lean", "resident", "best"]


def copied(row):
    moved = sum(row["copies"][side]["bytes"] for side in ("host_to_device", "device_to_host"))
    return f"{moved / GIB:.1f} GiB, {100 * row['copies']['hidden_share']:.1f} % hidden" if moved > GIB else ""


def memory(row):
    return f"{row['peak_bytes']['driver'] / GIB:.1f} GiB | {row['peak_bytes']['host'] / GIB:.1f} GiB"


def seconds_of(row):
    return f"{row['median_seconds']:.3f} s{'' if row['warm'] else ' (first step)'}"


def peer_text(peer):
    return f"{peer['sec']:.3g} s, {peer['alloc_GiB']:.1f} GiB" if peer["status"] == "ok" else "does not fit"


def gradient_row(row, peers):
    kind, context = row["row"].split(maxsplit=1)[1], row["context"]
    if row["exit"] != 0:
        return f"| {context} | {kind} | failed | | | | | | |"
    floor = FLOORS[context][kind == "best"]
    return (f"| {context} | {kind} | {seconds_of(row)} | {row['median_seconds'] / floor:.2f} x {floor:g} s | "
            f"{row['tokens_per_second']:,.0f} | {memory(row)} | {copied(row)} | {peers.get(context, '')} |")


def whole_row(row):
    if row["exit"] != 0:
        return f"| {row['context']} | failed | | | | | |"
    return (f"| {row['context']} | {seconds_of(row)} | {row['phases']['optimizer']:.2f} s | {row['tokens_per_second']:,.0f} | "
            f"{memory(row)} | {copied(row)} |")


def merged(sources):
    parts = [json.loads(Path(source).read_text()) for source in sources]
    versions = {part["oomb"] for part in parts}
    if len(versions) > 1:
        sys.exit(f"steps_page: measurements of {len(versions)} versions: {', '.join(versions)}")
    return {**parts[0], "rows": [row for part in parts for row in part["rows"]],
            "peers": [peer for part in parts for peer in part["peers"]], "gpu_after": parts[-1]["gpu_after"]}


def main(*arguments):
    *sources, out = arguments
    result = merged(sources)
    Path(out).with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    commit = result["oomb"].split("commit")[1].split()[0]
    done = [peer for run in result["peers"] for peer in run["results"]]
    peers = {f"{peer['ctx'] // 1024}K": peer_text(peer) for peer in done if peer["peer"] == "hf" and peer["attn"] == "cudnn"}
    rows = {row["row"]: row for row in result["rows"]}
    gradient = [rows[name] for context in CONTEXTS for kind in KINDS if (name := f"{context} {kind}") in rows]
    whole = [rows[name] for context in CONTEXTS if (name := f"{context} step") in rows]
    loaded = max((row for row in result["rows"] if row["exit"] == 0 and row["watts"]), key=lambda row: row["watts"])
    gpu = [part.strip() for part in result["gpu_before"].splitlines()[0].split(",")]
    lines = [
        "# Steps of a 7B model on one H200", "",
        "The Qwen2.5-7B shape (28 layers, 7.6 G parameters), random weights and tokens, bf16 with fp32 weight gradients, chunks of 8K.",
        "Medians of the steps after the first.", "",
        f"- Command: `bench/measure_steps.py` (the flags of each row are in [{Path(out).name}.json]({Path(out).name}.json)), commit `{commit}`.",
        f"- Machine: {gpu[0]}, driver {gpu[1]}; under load {loaded['watts']:.0f} W of 700 W and {loaded['clock_mhz']} MHz.",
        "- GPU memory is what the driver counts for the process, context included. Peers: peak of PyTorch's allocator, context not",
        "  included; they ran on the same machine, one after the other.",
        "- Floor: the arithmetic alone at sustained rates; for lean and resident with everything recomputed, for best with nothing.", "",
        "## Gradients", "",
        "Forward and backward, no optimizer. \"Lean\": every K/V page on the host, nothing kept, GPU memory does not grow with the context.",
        "\"Resident\": the same with all pages in GPU memory. \"Best\": as much kept as 139 GiB hold. \"Beside\": transformers with activation",
        "checkpointing, cuDNN attention and cross entropy in row tiles.", "",
        "| context | | seconds | over the floor | tokens/s | GPU memory | host arena | copies | beside |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *[gradient_row(row, peers) for row in gradient], ""]
    for name, lean in rows.items():
        resident = rows.get(name.replace("lean", "resident"))
        if name.endswith("lean") and resident and lean["exit"] == resident["exit"] == 0:
            over = lean["median_seconds"] / resident["median_seconds"] - 1
            lines.append(f"Offload at {lean['context']}: every page on the host costs {100 * over:.2f} % over all pages in GPU memory.")
    if whole:
        lines += ["", "## Whole steps", "", "With AdamW (m, v and master weights fp32, in GPU memory as far as it reaches, else on the host).", "",
                  "| context | seconds | of it optimizer | tokens/s | GPU memory | host arena | copies |",
                  "| --- | --- | --- | --- | --- | --- | --- |", *[whole_row(row) for row in whole]]
    others = [peer for peer in done if not (peer["peer"] == "hf" and peer["attn"] == "cudnn")]
    if others:
        lines += ["", "## Other peers", "", "| program | attention | context | seconds, GPU memory |", "| --- | --- | --- | --- |",
                  *[f"| {peer['peer']} | {peer['attn']} | {peer['ctx'] // 1024}K | {peer_text(peer)} |" for peer in others]]
    Path(out).with_suffix(".md").write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
