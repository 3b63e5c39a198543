#!/usr/bin/env python3
"""Predicted beside measured: the rows of docs/measurements/steps-h200.json under their own flags, as a table in Markdown.

    python bench/prediction_table.py [--plan build/bin/oomb-plan]
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PHASES = ("fill", "forward", "backward", "optimizer")
CALIBRATED = ("32K lean", "8K best")  # rows of an earlier sitting that the profile was read off
WITHOUT_VALUE, WITH_VALUE = ("--synthetic",), ("--steps", "--model", "--trace")


def predicted(plan, row, folder):
    words, flags = iter(row["command"].split()[1:]), []
    for word in words:
        if word in WITH_VALUE:
            next(words)
        elif word not in WITHOUT_VALUE:
            flags.append(word)
    config = json.loads((ROOT / "models/qwen2.5-7b.json").read_text())
    if " of " in row["row"]:
        config["num_hidden_layers"] = int(row["row"].split(" of ")[1].split()[0])
    model, out = folder / "config.json", folder / "plan.json"
    model.write_text(json.dumps(config))
    subprocess.run([plan, *flags, "--exact", "--model", model, "--json", out], check=True, capture_output=True)
    return json.loads(out.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", default=ROOT / "build/bin/oomb-plan", type=pathlib.Path)
    plan = parser.parse_args().plan
    rows = json.loads((ROOT / "docs/measurements/steps-h200.json").read_text())["rows"]
    print("| row | measured | predicted | step | " + " | ".join(PHASES) + " | share hidden, points | GPU memory, MB |")
    print("| --- | --- | --- | --- |" + " --- |" * (len(PHASES) + 2))
    errors = []
    with tempfile.TemporaryDirectory() as name:
        for row in (row for row in rows if row["exit"] == 0):
            found = predicted(plan, row, pathlib.Path(name))
            time, measured = found["time"], row["median_seconds"]
            error = time["seconds"]["total"] / measured - 1
            known = row["row"].removesuffix(" traced") in CALIBRATED
            errors += [] if known else [abs(error)]
            phases = [f"{100 * (time['seconds'][phase] / row['phases'][phase] - 1):+.1f} %" for phase in PHASES]
            copies = time["copies"]["hidden_share"]
            travels = row["copies"]["device_to_host"]["bytes"] > 0
            hidden = f"{100 * (copies - row['copies']['hidden_share']):+.1f}" if travels else ""
            memory = (found["peak_bytes"]["hbm"] - row["peak_bytes"]["driver"]) / 1e6
            print(f"| {row['row']}{' (calibrated on)' if known else ''} | {measured:.3f} s | {time['seconds']['total']:.3f} s | "
                  f"{100 * error:+.1f} % | {' | '.join(phases)} | {hidden} | {memory:+.1f} |")
    print(f"\n{len(errors)} rows that the profile was not read off: median error {100 * statistics.median(errors):.1f} %, "
          f"largest {100 * max(errors):.1f} %.")


if __name__ == "__main__":
    main()
