#!/usr/bin/env python3
"""Seconds and bytes of steps of the Qwen2.5-7B shape on one GPU: lean, best and, beside them, peers.

    python bench/measure_steps.py --train build/bin/oomb-train --out FILE.json [--rows NAME,...]
        [--peers FOLDER --peer "hf.py --ctx 8192,8192,32768" --peer "hf_offload.py --ctx 131072" ...]

Random weights and tokens. Rows named "step" run AdamW too, the others stop at the gradients; "traced" ones say where the
time of a step went, by kind of operation. Every row is a process of its own; its first step warms up and is left out
where there are more. --peers names a folder of peers' programs, run after the rows, each as a --peer says. One JSON file at the end: the
readings, medians, the commands, the machine.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import trace_by_kind

ROOT = pathlib.Path(__file__).resolve().parent.parent
FEWER = " of 7 layers"  # a row of this ending runs that many of the model's layers
COMMON = ["--synthetic", "--device", "cuda", "--chunk", "8K"]
GRADIENTS = ["--no-optimizer"]
LEAN = [*GRADIENTS, "--offload", "host", "--hbm-pages", "ring", "--keep", "none"]
BEST = [*GRADIENTS, "--offload", "host", "--keep", "auto", "--held-chunks", "auto", "--logit-tile", "4K"]
STEP = ["--offload", "host", "--keep", "auto", "--held-chunks", "auto", "--optimizer-states", "auto"]
# name: context, steps, flags
ROWS = {
    "8K lean": ("8K", 6, LEAN),
    "8K best": ("8K", 6, BEST),
    "32K lean": ("32K", 3, [*LEAN, "--window", "32K"]),
    "32K best": ("32K", 4, [*BEST, "--window", "32K"]),
    "32K lean bf16": ("32K", 3, [*LEAN, "--window", "32K", "--gradient-dtype", "bf16"]),
    "64K lean": ("64K", 2, [*LEAN, "--window", "32K"]),
    "64K resident": ("64K", 2, [*GRADIENTS, "--keep", "none", "--window", "32K"]),
    "64K best": ("64K", 2, [*BEST, "--window", "64K"]),
    "128K lean": ("128K", 1, [*LEAN, "--window", "32K"]),
    "128K resident": ("128K", 1, [*GRADIENTS, "--keep", "none", "--window", "32K"]),
    "128K hosted": ("128K", 1, [*GRADIENTS, "--offload", "host", "--hbm-pages", "ring", "--keep", "xo", "--logit-tile",
                                "4K", "--window", "64K"]),
    "128K best": ("128K", 1, [*BEST, "--window", "64K"]),
    "256K lean": ("256K", 1, [*LEAN, "--window", "32K"]),
    "256K best": ("256K", 1, [*BEST, "--window", "64K"]),
    "512K lean": ("512K", 1, [*LEAN, "--window", "32K"]),
    "512K best": ("512K", 1, [*BEST, "--window", "64K"]),
    "512K lean of 7 layers": ("512K", 1, [*LEAN, "--window", "32K"]),
    # What the plan of all layers keeps, in as much GPU memory as leaves about the same share of it on the host.
    "512K best of 7 layers": ("512K", 1, [*GRADIENTS, "--offload", "host", "--keep", "o", "--held-chunks", "1", "--logit-tile",
                                        "4K", "--window", "64K", "--gpu-memory", "48GiB"]),
    "32K lean traced": ("32K", 3, [*LEAN, "--window", "32K", "--trace"]),
    "64K best traced": ("64K", 2, [*BEST, "--window", "64K", "--trace"]),
    "32K step": ("32K", 3, [*STEP, "--window", "32K"]),
    "32K step remainder": ("32K", 3, [*STEP, "--window", "32K", "--master-weights", "remainder"]),
    "128K step": ("128K", 2, [*STEP, "--window", "32K"]),
    "256K step": ("256K", 1, [*STEP, "--window", "32K"]),
}


def gpu_state():
    """One line; empty where there is no driver."""
    if not shutil.which("nvidia-smi"):
        return ""
    fields = "name,driver_version,clocks.sm,power.draw,temperature.gpu"
    found = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"], capture_output=True, text=True)
    return found.stdout.strip()


def measure(train, config, name):
    context, steps, flags = ROWS[name]
    model = config
    with tempfile.TemporaryDirectory() as folder:
        metrics, trace = pathlib.Path(folder) / "metrics.jsonl", pathlib.Path(folder) / "trace.jsonl"
        if name.endswith(FEWER):
            model = pathlib.Path(folder) / "config.json"
            model.write_text(json.dumps({**json.loads(pathlib.Path(config).read_text()), "num_hidden_layers": int(FEWER.split()[1])}))
        command = [str(train), *COMMON, "--model", str(model), "--context", context, "--steps", str(steps), *flags]
        command += [str(trace)] * (flags[-1] == "--trace") + ["--metrics", str(metrics)]
        begin = time.monotonic()
        run = subprocess.run(command, capture_output=True, text=True)
        row = {"row": name, "context": context, "command": " ".join(["oomb-train", *command[1:-2]]).replace(f"{ROOT}/", ""),
               "process_seconds": round(time.monotonic() - begin, 1), "exit": run.returncode}
        if run.returncode != 0:
            row["error"] = run.stderr[-2000:]
            return row
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
        if trace.exists():
            _, records, _ = trace_by_kind.read_step(trace, None)
            row["by_kind"] = trace_by_kind.summary(records)
    counted = lines[1:] if len(lines) > 1 else lines
    seconds = [line["seconds"]["total"] for line in counted]
    last = counted[-1]
    row.update(
        warm=len(lines) > 1,
        seconds=[round(value, 4) for value in seconds],
        median_seconds=statistics.median(seconds),
        tokens_per_second=last["tokens"] / statistics.median(seconds),
        phases={phase: statistics.median(line["seconds"][phase] for line in counted)
                for phase in ("fill", "forward", "backward", "optimizer")},
        peak_bytes=last["peak_bytes"],
        copies=last["copies"],
        joules_per_token=last["device"]["joules"] / last["tokens"] if last["device"]["joules"] else None,
        watts=last["device"]["watts"],
        clock_mhz=last["device"]["clock_mhz"],
        loss=last["loss"],
    )
    return row


def measure_peer(folder, arguments):
    run = subprocess.run([sys.executable, *arguments.split()], cwd=folder, capture_output=True, text=True)
    results = [json.loads(line[len("RESULT "):]) for line in run.stdout.splitlines() if line.startswith("RESULT ")]
    return {"command": arguments, "exit": run.returncode, "results": results,
            **({"error": run.stderr[-2000:]} if run.returncode else {})}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--model", default=str(ROOT / "models/qwen2.5-7b.json"))
    parser.add_argument("--peers", type=pathlib.Path)
    parser.add_argument("--peer", action="append", default=[], help="a program in that folder and its flags")
    arguments = parser.parse_args()
    if arguments.peer and not arguments.peers:
        parser.error("--peer needs --peers")
    names = [name for name in arguments.rows.split(",") if name]
    if unknown := [name for name in names if name not in ROWS]:
        sys.exit(f"--rows: {', '.join(unknown)} unknown; there are {', '.join(ROWS)}")
    version = subprocess.run([str(arguments.train), "--version"], capture_output=True, text=True).stdout.strip()
    result = {"oomb": version, "gpu_before": gpu_state(), "rows": [], "peers": []}
    for name in names:
        row = measure(arguments.train.resolve(), arguments.model, name)
        result["rows"].append(row)
        found = f"{row['median_seconds']:.3f} s, {row['peak_bytes']['driver'] / 2**30:.1f} GiB" if row["exit"] == 0 else row["error"]
        print(f"{name}: {found}", flush=True)
        arguments.out.write_text(json.dumps(result, indent=1))
    for peer in arguments.peer:
        result["peers"].append(measure_peer(arguments.peers, peer))
        print(json.dumps(result["peers"][-1]), flush=True)
        arguments.out.write_text(json.dumps(result, indent=1))
    result["gpu_after"] = gpu_state()
    arguments.out.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
