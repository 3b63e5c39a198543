#!/usr/bin/env python3
"""Runs told from the trace of another run: recorded traces replayed under each other's flags, beside what was measured.

    bench/replay_pairs.py --plan build/bin/oomb-plan --traces FOLDER --out docs/measurements/replay-h200

FOLDER has traces of one model, context and chunk (oomb-train --trace) by the names below. Writes OUT.json and OUT.md.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

# trace: the flags that it was recorded with, beside those that all share
COMMON = "--synthetic --device cuda --no-optimizer --context 64K --chunk 4K --steps 3"
TRACES = {"w16": "--window 16K --offload host --hbm-pages ring --keep none",
          "w64": "--window 64K --offload host --hbm-pages ring --keep none",
          "xo": "--window 16K --offload host --hbm-pages ring --keep xo",
          "res": "--window 16K --keep none"}
# recorded, told, what changes
PAIRS = [("w16", "w16", ""), ("w64", "w64", ""), ("xo", "xo", ""), ("res", "res", ""), ("w16", "w64", "--window 64K"),
         ("w64", "w16", "--window 16K"), ("w16", "xo", "--keep xo"), ("xo", "w16", "--keep none"),
         ("res", "w16", "--offload host --hbm-pages ring")]


def replayed(plan, trace, flags):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "replay.json"
        subprocess.run([plan, "replay", "--trace", trace, *flags.split(), "--json", out], check=True, capture_output=True)
        return json.loads(out.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", required=True, type=Path)
    parser.add_argument("--traces", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path, help="path without extension")
    args = parser.parse_args()
    rows, headers = [], {}
    for recorded, told, flags in PAIRS:
        found = replayed(args.plan.resolve(), args.traces / f"{recorded}.trace", flags)
        headers[recorded] = json.loads((args.traces / f"{recorded}.trace").open().readline())
        rows.append({"recorded": recorded, "told": told, "flags": flags, "replay": found})
    steps = {row["recorded"]: row["replay"]["recorded"]["seconds"]["total"] for row in rows}
    program, device = headers["w16"]["program"], headers["w16"]["device"]
    lines = ["# Runs told from the trace of another run", "",
             f"Qwen2.5-7B with 8 of its 28 layers, `oomb-train {COMMON}`, each trace recorded in one sitting on an {device}; `oomb-plan replay`",
             "of one of them under the flags of another. The first rows change nothing.", "",
             f"- Command: `bench/replay_pairs.py --plan build/bin/oomb-plan --traces FOLDER --out {args.out}`; recorded by {program}.", "",
             "| recorded | changed | told | measured | error |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        replay = row["replay"]
        seconds = replay["changed" if row["flags"] else "replayed"]["seconds"]["total"]
        lines.append(f"| `{TRACES[row['recorded']]}` | {'`' + row['flags'] + '`' if row['flags'] else ''} | {seconds:.3f} s | "
                     f"{steps[row['told']]:.3f} s | {100 * (seconds / steps[row['told']] - 1):+.2f} % |")
    args.out.with_suffix(".json").write_text(json.dumps({"traces": {name: f"{COMMON} {flags}" for name, flags in TRACES.items()},
                                                         "rows": rows}, indent=1) + "\n")
    args.out.with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
