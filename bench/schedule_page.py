#!/usr/bin/env python3
"""Makes the page of the schedule's benchmark from Google Benchmark's JSON:

    make bench && bench/schedule_page.py build/bench/bench_schedule.json docs/measurements/schedule
"""

import json
import subprocess
import sys
from pathlib import Path


def main(source, out):
    report = json.loads(Path(source).read_text())
    context = report["context"]
    root = Path(__file__).resolve().parents[1]
    commit = subprocess.run(["git", "-C", root, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True).stdout.strip()
    kept = {"commit": commit, "date": context["date"], "cores": context["num_cpus"], "mhz": context["mhz_per_cpu"],
            "benchmarks": report["benchmarks"]}
    Path(out).with_suffix(".json").write_text(json.dumps(kept, indent=2) + "\n")
    lines = ["# The schedule of a 7B model: generating it, planning it", "", "`make bench` (bench/schedule_bench.cpp), "
             "Qwen2.5-7B shape; the number behind a name is the context in tokens.", "",
             f"Commit {commit}, {context['date'][:10]}; {context['num_cpus']} cores of {context['mhz_per_cpu']} MHz, one thread.", "",
             "| what | CPU time | operations | operations per second | peak heap bytes |", "| --- | --- | --- | --- | --- |"]
    for b in report["benchmarks"]:
        operations = f"{b['operations']:,.0f}" if "operations" in b else ""
        rate = f"{b['items_per_second'] / 1e6:.1f} M" if "items_per_second" in b else ""
        heap = f"{b['heap_bytes']:,.0f}" if "heap_bytes" in b else ""
        lines.append(f"| {b['name']} | {b['cpu_time']:.3g} {b['time_unit']} | {operations} | {rate} | {heap} |")
    Path(out).with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
