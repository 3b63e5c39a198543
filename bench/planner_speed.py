#!/usr/bin/env python3
"""Measures what oomb-plan takes, call by call, and makes a page of it:

    bench/planner_speed.py build/bin/oomb-plan docs/measurements/planner-speed

Rows that miss their goal, in time (taken_seconds()) or memory, say so. With --check only: fails where a call takes more than --factor
times its goal. With --page only: makes the page again from the JSON, nothing is measured.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
QWEN = ["--model", str(ROOT / "models/qwen2.5-7b.json")]
SMOL = ["--model", str(ROOT / "models/smollm2-135m.json")]
ROOM = ["--host-memory", "4TiB"]
LEAN = ["--offload", "host", "--hbm-pages", "ring", *ROOM]
AUTO = ["--offload", "host", "--keep", "auto", "--kept-pages", "auto", "--held-chunks", "auto"]
TOP_K = ["--attention", "topk", "--top-k", "64"]
MEMORY_MB = 200

# What, goal in seconds, arguments.
CALLS = [
    ("fit, 128K tokens", 0.05, ["fit", *QWEN, *LEAN, "--context", "128K"]),
    ("fit, 1M in chunks of 8K, windows of 32K", 0.05, ["fit", *QWEN, *LEAN, "--context", "1M", "--chunk", "8K", "--window", "32K"]),
    ("fit, 1M in chunks of 4K, windows of 16K", 0.05, ["fit", *QWEN, *LEAN, "--context", "1M"]),
    ("fit, 4M in chunks of 8K, windows of 32K", 1.0, ["fit", *QWEN, *LEAN, "--context", "4M", "--chunk", "8K", "--window", "32K"]),
    ("fit, 4M in chunks of 4K, windows of 16K", 1.0, ["fit", *QWEN, *LEAN, "--context", "4M"]),
    ("best with its front, 128K", 2.0, ["best", *QWEN, "--context", "128K"]),
    ("best with its front, 1M", 2.0, ["best", *QWEN, *ROOM, "--context", "1M"]),
    ("best with its front, SmolLM2, 2M", 2.0, ["best", *SMOL, "--context", "2M"]),
    ("top-K: fit, 128K", 0.1, ["fit", *QWEN, *LEAN, *TOP_K, "--context", "128K"]),
    ("top-K: fit, 1M in chunks of 8K, windows of 32K", 1.0, ["fit", *QWEN, *LEAN, *TOP_K, "--context", "1M", "--chunk", "8K", "--window", "32K"]),
    ("top-K: fit, 4M in chunks of 8K, windows of 32K", 5.0, ["fit", *QWEN, *LEAN, *TOP_K, "--context", "4M", "--chunk", "8K", "--window", "32K"]),
    ("top-K: best with its front, 128K", 2.0, ["best", *QWEN, *TOP_K, "--context", "128K"]),
    # Compute waits for the host: all layers are walked through.
    ("top-K: fit, SmolLM2, 128K in chunks of 2K, windows of 128K", 1.0, ["fit", *SMOL, *TOP_K, "--context", "128K", "--chunk", "2K", "--window", "128K"]),
    ("top-K: best with its front, SmolLM2, 128K", 2.0, ["best", *SMOL, *TOP_K, "--context", "128K"]),
    ("top-K: max-context without optimizer, chunks of 8K, windows of 32K", 5.0,
     ["max-context", *QWEN, *TOP_K, "--no-optimizer", "--chunk", "8K", "--window", "32K"]),
    ("top-K: sweep of 54 points, 32K to 128K", 5.0,
     ["sweep", *QWEN, *LEAN, *TOP_K, "--context", "32K,64K,128K", "--chunk", "2K,4K,8K", "--window", "16K,32K,64K", "--gpu-memory", "100GiB,139GiB"]),
    ("sweep of 1,000 points, 8K to 128K, what is kept left to auto", 20.0,
     ["sweep", *QWEN, *AUTO, "--context", "8K,16K,32K,64K,128K", "--chunk", "2K,4K,8K,16K", "--window", "4K,8K,16K,32K,64K",
      "--gpu-memory", "60GiB,70GiB,80GiB,100GiB,139GiB", "--host-memory", "125GiB,250GiB"]),
]


def run_once(program, arguments):
    """User seconds, seconds on the clock and peak megabytes of one call."""
    begin = time.monotonic()
    process = subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    error = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 3):
        sys.exit(f"{' '.join(arguments)}: exit code {process.returncode}\n{error}")
    return usage.ru_utime, time.monotonic() - begin, usage.ru_maxrss / 1000


def measure(program, arguments, repeats):
    """The least of some calls: whatever else runs on the machine only adds."""
    runs = [run_once(program, arguments) for _ in range(repeats)]
    return {"user_seconds": min(run[0] for run in runs), "clock_seconds": min(run[1] for run in runs),
            "peak_mb": max(run[2] for run in runs), "repeats": repeats}


def taken_seconds(call):
    """The smaller of two numbers, each of which may say too much: the clock counts what others did on the cores, user time the
    work of all threads, and goals are for the cores that there are."""
    return min(call["user_seconds"], call["clock_seconds"])


def missed(call):
    """What a call has too much of, in words; empty where it meets its goals."""
    taken, goal = taken_seconds(call), call["goal_seconds"]
    more = [f"{taken:.3f} s of {goal:g} s"] if taken > goal else []
    return " and ".join(more + ([f"{call['peak_mb']:.0f} MB of {MEMORY_MB} MB"] if call["peak_mb"] > MEMORY_MB else []))


def page(report):
    lines = ["# What oomb-plan takes", "",
             "`bench/planner_speed.py build/bin/oomb-plan docs/measurements/planner-speed`: the programs themselves, whole calls, the least of "
             "some repeats. Qwen2.5-7B unless said otherwise, every page on the host for `fit`; top-K: K = 64.", "",
             f"Commit {report['commit']}, {report['date']}; {report['cores']} cores, load {report['load']:.1f} when it began. With others at "
             "work on the same cores the clock says more than the program takes; user time counts its own work, on all threads together. "
             "`sweep` has one for each core, and so have the last predictions of `best`.", "",
             f"Goals are held against the smaller of the two, and {MEMORY_MB} MB for each call. "
             + (f"**Missed:** {'; '.join(late)}." if (late := [f"{call['what']} ({missed(call)})" for call in report["calls"] if missed(call)])
                else "All are met."), "",
             "| call | goal | user time | on the clock | peak memory | repeats | goal is |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for call in report["calls"]:
        lines.append(f"| {call['what']} | {call['goal_seconds']:g} s | {call['user_seconds']:.3f} s | {call['clock_seconds']:.3f} s | "
                     f"{call['peak_mb']:.0f} MB | {call['repeats']} | {'**missed**' if missed(call) else 'met'} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("out", nargs="?", help="page and JSON, without suffix")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--factor", type=float, default=5.0)
    parser.add_argument("--most-seconds", type=float, default=float("inf"), help="leave out calls with larger goals")
    options = parser.parse_args()
    if options.page:
        Path(options.out).with_suffix(".md").write_text(page(json.loads(Path(options.out).with_suffix(".json").read_text())))
        return 0
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True).stdout.strip()
    report = {"commit": commit, "date": str(datetime.date.today()), "cores": os.cpu_count(), "load": os.getloadavg()[0], "calls": []}
    failed = False
    for what, goal, arguments in CALLS:
        if goal > options.most_seconds:
            continue
        repeats = 1 if options.check and goal > 1 else 10 if goal < 0.1 else 5 if goal < 10 else 2
        result = {"what": what, "goal_seconds": goal, "command": ["oomb-plan", *(a.replace(str(ROOT) + "/", "") for a in arguments)],
                  **measure(options.program, arguments, repeats)}
        report["calls"].append(result)
        late = taken_seconds(result) > options.factor * goal or result["peak_mb"] > MEMORY_MB
        failed = failed or late
        print(f"{what}: {result['user_seconds']:.3f} s user, {result['clock_seconds']:.3f} s, {result['peak_mb']:.0f} MB, goal {goal:g} s"
              f"{', TOO MUCH' if options.check and late else ''}", flush=True)
    if options.out:
        Path(options.out).with_suffix(".json").write_text(json.dumps(report, indent=2) + "\n")
        Path(options.out).with_suffix(".md").write_text(page(report))
    return 1 if options.check and failed else 0


if __name__ == "__main__":
    sys.exit(main())
