#!/usr/bin/env python3
"""Makes the page of the steps from what measure_steps.py wrote, in one file or in several; the first may be an earlier page's:

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
CONTEXT_TOKENS = {context: int(context[:-1]) * 1024 for context in CONTEXTS}
KINDS = ["lean", "lean bf16", "resident", "hosted", "best", "lean of 7 layers", "best of 7 layers"]


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
    floor = FLOORS[context][kind in ("hosted", "best", "best of 7 layers")] / (4 if kind.endswith("7 layers") else 1)
    return (f"| {context} | {kind} | {seconds_of(row)} | {row['median_seconds'] / floor:.2f} x {floor:.3g} s | "
            f"{row['tokens_per_second']:,.0f} | {memory(row)} | {copied(row)} | {peers.get(context, '')} |")


def whole_row(row):
    masters = "16-bit remainders" if row["row"].endswith("remainder") else "fp32"
    if row["exit"] != 0:
        return f"| {row['context']} | {masters} | failed | | | | | |"
    return (f"| {row['context']} | {masters} | {seconds_of(row)} | {row['phases']['optimizer']:.2f} s | {row['tokens_per_second']:,.0f} | "
            f"{memory(row)} | {copied(row)} |")


def growth(sizes):
    """Bytes per 10K tokens from the shortest to the longest context; sizes: [(tokens, bytes)]."""
    (first, low), (last, high) = min(sizes), max(sizes)
    return (high - low) / (last - first) * 1e4


def growth_lines(rows, peers):
    # Below twice the window GPU memory still follows the context.
    programs = {"lean": [(CONTEXT_TOKENS[row["context"]], row["peak_bytes"]["driver"]) for name, row in rows.items()
                         if name.endswith(" lean") and row["exit"] == 0 and CONTEXT_TOKENS[row["context"]] >= 65536]}
    for peer in peers:
        if peer["status"] == "ok":
            programs.setdefault(f"{peer['peer']}, {peer['attn']} attention", []).append((peer["ctx"], peer["alloc_GiB"] * GIB))
    found = {name: sorted(set(sizes)) for name, sizes in programs.items() if len({tokens for tokens, _ in sizes}) > 1}
    return ["", "Growth of GPU memory per 10K tokens: " + "; ".join(
        f"{name} {growth(sizes) / 1e6:,.1f} MB ({sizes[0][0] // 1024}K to {sizes[-1][0] // 1024}K)"
        for name, sizes in found.items()) + "."] if found else []


def kind_lines(name, summary):
    """Compute operations that take 0.5 % and more, and the copies."""
    whole = summary["step_seconds"]
    shown = [kind for kind in summary["kinds"] if kind["share"] >= 0.005 or kind["engine"] != "compute"]
    rest = sum(kind["seconds"] for kind in summary["kinds"] if kind not in shown)
    return ["", f"## Where the time goes: {name}", "", f"{whole:.3f} s, of which the compute engine idles {summary['compute_idle_seconds']:.3f} s.", "",
            "| engine | kind | operations | seconds | share |", "| --- | --- | --- | --- | --- |",
            *[f"| {kind['engine']} | {kind['kind']} | {kind['operations']:,} | {kind['seconds']:.3f} | {100 * kind['share']:.1f} % |"
              for kind in shown],
            f"| compute | the others | | {rest:.3f} | {100 * rest / whole:.1f} % |"]


def commit_of(version):
    return version.split("commit")[1].split()[0]


def merged(sources):
    """One result of all files: the first one's version, and at each row and peer of another commit which."""
    parts = [json.loads(Path(source).read_text()) for source in sources]
    commit = commit_of(parts[0]["oomb"])
    for part in parts:
        if commit_of(part["oomb"]) != commit:
            for entry in [*part["rows"], *part["peers"]]:
                entry["commit"] = commit_of(part["oomb"])
    return {**parts[0], "rows": [row for part in parts for row in part["rows"]],
            "peers": [peer for part in parts for peer in part["peers"]], "gpu_after": parts[-1]["gpu_after"]}


def main(*arguments):
    *sources, out = arguments
    result = merged(sources)
    Path(out).with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    later = {}
    for row in result["rows"]:
        if "commit" in row:
            later.setdefault(row["commit"], []).append(row["row"])
    commits = "; ".join([f"commit `{commit_of(result['oomb'])}`", *(f"{', '.join(names)}: `{commit}`" for commit, names in later.items())])
    done = [peer for run in result["peers"] for peer in run["results"]]
    peers = {f"{peer['ctx'] // 1024}K": peer_text(peer) for peer in done if peer["peer"] == "hf" and peer["attn"] == "cudnn"}
    rows = {row["row"]: row for row in result["rows"]}
    gradient = [rows[name] for context in CONTEXTS for kind in KINDS if (name := f"{context} {kind}") in rows]
    whole = [rows[name] for context in CONTEXTS for kind in ("step", "step remainder") if (name := f"{context} {kind}") in rows]
    loaded = max((row for row in result["rows"] if row["exit"] == 0 and row["watts"]), key=lambda row: row["watts"])
    gpu = [part.strip() for part in result["gpu_before"].splitlines()[0].split(",")]
    lines = [
        "# Steps of a 7B model on one H200", "",
        "The Qwen2.5-7B shape (28 layers, 7.6 G parameters), random weights and tokens, bf16 with fp32 weight gradients, chunks of 8K.",
        "Medians of the steps after the first.", "",
        f"- Command: `bench/measure_steps.py` (the flags of each row are in [{Path(out).name}.json]({Path(out).name}.json)); {commits}.",
        f"- Machine: {gpu[0]}, driver {gpu[1]}; under load {loaded['watts']:.0f} W of 700 W and {loaded['clock_mhz']} MHz.",
        "- GPU memory is what the driver counts for the process, context included. Peers: peak of PyTorch's allocator, context not",
        "  included. Each file's rows and peers ran on one GPU, one after the other"
        + ("; files on two GPUs of one host, side by side." if len(sources) > 1 else "."),
        "- Floor: the arithmetic alone at sustained rates; for lean and resident with everything recomputed, for best with nothing.", "",
        "## Gradients", "",
        "Forward and backward, no optimizer. \"Lean\": every K/V page on the host, nothing kept, GPU memory does not grow with the context.",
        "\"Lean bf16\": the same with bf16 weight gradients. \"Resident\": lean with all pages in GPU memory. \"Hosted\": lean, with layer",
        "inputs and attention outputs kept in host memory. \"Best\": what the planner chooses to keep within 139 GiB. \"7 layers\": of the",
        "28, a quarter of the floor. \"Beside\": transformers with activation checkpointing, cuDNN attention and cross entropy in row tiles.", "",
        "| context | | seconds | over the floor | tokens/s | GPU memory | host arena | copies | beside |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *[gradient_row(row, peers) for row in gradient], ""]
    for name, lean in rows.items():
        resident = rows.get(name.replace("lean", "resident"))
        if name.endswith("lean") and resident and lean["exit"] == resident["exit"] == 0:
            over = lean["median_seconds"] / resident["median_seconds"] - 1
            lines.append(f"Offload at {lean['context']}: every page on the host costs {100 * over:.2f} % over all pages in GPU memory.")
    for name, traced in rows.items():
        plain = rows.get(name.removesuffix(" traced"))
        if name.endswith(" traced") and plain and traced["exit"] == plain["exit"] == 0:
            over = traced["median_seconds"] / plain["median_seconds"] - 1
            lines.append(f"`--trace` at {name.removesuffix(' traced')}: {100 * over:+.2f} %.")
    lines += growth_lines(rows, done)
    if whole:
        lines += ["", "## Whole steps", "", "With AdamW (m and v in fp32; states in GPU memory as far as it reaches, else on the host).", "",
                  "| context | master weights | seconds | of it optimizer | tokens/s | GPU memory | host arena | copies |",
                  "| --- | --- | --- | --- | --- | --- | --- | --- |", *[whole_row(row) for row in whole]]
    others = [peer for peer in done if not (peer["peer"] == "hf" and peer["attn"] == "cudnn")]
    if others:
        lines += ["", "## Other peers", "", "| program | attention | context | seconds, GPU memory |", "| --- | --- | --- | --- |",
                  *[f"| {peer['peer']} | {peer['attn']} | {peer['ctx'] // 1024}K | {peer_text(peer)} |" for peer in others]]
    for name, row in rows.items():
        if "by_kind" in row:
            lines += kind_lines(name.removesuffix(" traced"), row["by_kind"])
    Path(out).with_suffix(".md").write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
