#!/usr/bin/env python3
"""A training step of oomb-train beside transformers' with activation checkpointing, on one machine, one after the other.

    bench/compare_step.py --model DIR --data TOKENS.npy --contexts 2048,4096 --out docs/measurements/cpu-step

Both run full AdamW steps in float32 on the same tokens with the same number of threads; the first step is left out. Rounds
alternate between the two, so that both see the same machine. Writes OUT.json (every reading) and OUT.md (the table).
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VARIANTS = {
    "oomb-train": [],
    "oomb-train, all on the host": ["--offload", "host", "--hbm-pages", "ring", "--keep", "xo"],
}


def run(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def oomb_step(args, context, flags):
    with tempfile.TemporaryDirectory() as folder:
        metrics = Path(folder) / "metrics.jsonl"
        run([ROOT / "build/bin/oomb-train", "--model", args.model, "--data", args.data, "--context", context, "--chunk",
             args.chunk, "--steps", str(args.steps), "--learning-rate", "1e-5", "--threads", str(args.threads),
             "--metrics", metrics, *flags])
        records = [json.loads(line) for line in metrics.read_text().splitlines()]
    return [r["tokens_per_second"] for r in records[1:]], records[-1]["peak_bytes"]["resident"]


def transformers_step(args, context):
    result = json.loads(run([sys.executable, ROOT / "tools/reference_step.py", "--model", args.model, "--data", args.data,
                             "--context", context, "--time", "--checkpointing", "--steps", str(args.steps), "--threads",
                             str(args.threads)]))
    return [int(context) / seconds for seconds in result["seconds"][1:]], result["peak_resident_bytes"]


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def measure(args):
    rows = []
    for context in args.contexts.split(","):
        readings = {}
        for _ in range(args.rounds):
            calls = {"transformers, checkpointing": lambda: transformers_step(args, context)}
            calls.update({name: (lambda flags=flags: oomb_step(args, context, flags)) for name, flags in VARIANTS.items()})
            for name, call in calls.items():
                speeds, peak = call()
                reading = readings.setdefault(name, {"tokens_per_second": [], "peak_resident_bytes": 0})
                reading["tokens_per_second"] += speeds
                reading["peak_resident_bytes"] = max(reading["peak_resident_bytes"], peak)
                print(context, name, speeds, peak, file=sys.stderr, flush=True)
        rows += [{"context": int(context), "program": name, **reading} for name, reading in readings.items()]
    return rows


def table(report):
    readings = {len(row["tokens_per_second"]) for row in report["rows"]}
    count = "single readings" if readings == {1} else f"median of {min(readings)} or more"
    lines = ["# A training step on the CPU beside transformers", "",
             f"`{report['command']}`", "",
             f"Commit {report['commit']}, {report['date']}; {report['processor']}, {report['cores']} cores, "
             f"{report['threads']} threads; {report['note']}", "",
             f"| context | program | tokens/s, {count} | ratio | peak resident GiB |", "| --- | --- | --- | --- | --- |"]
    for row in report["rows"]:
        peer = next(r for r in report["rows"] if r["context"] == row["context"] and r["program"].startswith("transformers"))
        speed = statistics.median(row["tokens_per_second"])
        ratio = speed / statistics.median(peer["tokens_per_second"])
        lines.append(f"| {row['context']:,} | {row['program']} | {speed:.1f} | {ratio:.2f} | "
                     f"{row['peak_resident_bytes'] / 2**30:.2f} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--contexts", default="2048,4096")
    parser.add_argument("--chunk", default="256")
    parser.add_argument("--steps", type=int, default=2, help="per round; the first is left out (default: 2)")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--note", default="nothing else running", help="state of the machine, for the page")
    parser.add_argument("--out", required=True, type=Path)
    args = parser.parse_args()
    commit = run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"]).strip()
    shown = ["bench/compare_step.py", "--model", Path(args.model).name, "--data", Path(args.data).name, "--contexts",
             args.contexts, "--chunk", args.chunk, "--steps", str(args.steps), "--rounds", str(args.rounds)]
    report = {"command": " ".join(shown), "commit": commit, "date": date.today().isoformat(), "processor": processor(),
              "cores": os.cpu_count(), "threads": args.threads, "note": args.note, "rows": measure(args)}
    args.out.with_suffix(".json").write_text(json.dumps(report, indent=2) + "\n")
    args.out.with_suffix(".md").write_text(table(report))


if __name__ == "__main__":
    main()
