#!/usr/bin/env python3
"""Predicted beside measured, as tables in Markdown: the rows of docs/measurements/steps-h200.json (bench/measure_steps.py)
and, where there is one, of docs/measurements/settings-h200.json (bench/measure_settings.py), each under its own flags.

    python bench/prediction_table.py [--plan build/bin/oomb-plan] [--hardware NAME|FILE] [--settings FILE.json] [--steps FILE.json]
        [--plot FILE.svg]

The last column is what a common calculator says of transformers with activation checkpointing: 6 N FLOPs per token and
12 layers x heads x head size x context for attention (Chowdhery et al., PaLM, 2022, appendix B), 4/3 of that for
recomputation, at 40 % of the data sheet's peak.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PHASES = ("fill", "forward", "backward", "optimizer")
SEEN = ("32K lean",)  # settings of which a trace was among those that the profile was fitted to
WITHOUT_VALUE, WITH_VALUE = ("--synthetic",), ("--steps", "--model", "--trace")
PEAK, UTILISATION, RECOMPUTED = 989.5e12, 0.4, 4 / 3


def flags_of(row):
    if "plan_flags" in row:
        return row["plan_flags"]
    words, flags = iter(row["command"].split()[1:]), []
    for word in words:
        if word in WITH_VALUE:
            next(words, None)
        elif word not in WITHOUT_VALUE:
            flags.append(word)
    return flags


def config_of(row):
    if "config" in row:
        return row["config"]
    config = json.loads((ROOT / "models/qwen2.5-7b.json").read_text())
    if " of " in row["row"]:
        config["num_hidden_layers"] = int(row["row"].split(" of ")[1].split()[0])
    return config


def predicted(plan, hardware, row, folder):
    model, out = folder / "config.json", folder / "plan.json"
    model.write_text(json.dumps(config_of(row)))
    subprocess.run([plan, *flags_of(row), "--exact", "--model", model, "--json", out, *hardware], check=True,
                   capture_output=True)
    return json.loads(out.read_text())


def calculator_seconds(plan):
    model, tokens = plan["model"], plan["run"]["context_tokens"]
    attention = 12 * model["layers"] * model["query_heads"] * model["head_dim"] * tokens
    return tokens * (6 * model["parameters"] + attention) * RECOMPUTED / (PEAK * UTILISATION)


def print_table(rows, plan, hardware):
    print("| row | measured | predicted | step | " + " | ".join(PHASES) +
          " | share hidden, points | GPU memory, MB | a calculator |")
    print("| --- | --- | --- | --- |" + " --- |" * (len(PHASES) + 3))
    errors, hidden_errors, points_drawn = [], [], []
    with tempfile.TemporaryDirectory() as name:
        for row in (row for row in rows if row["exit"] == 0):
            found = predicted(plan, hardware, row, pathlib.Path(name))
            time, measured = found["time"], row["median_seconds"]
            error = time["seconds"]["total"] / measured - 1
            seen = row["row"].removesuffix(" traced") in SEEN
            errors += [] if seen else [abs(error)]
            points_drawn += [] if seen else [(shape_of(row), found["run"]["context_tokens"], 100 * error)]
            phases = [f"{100 * (time['seconds'][phase] / row['phases'][phase] - 1):+.1f} %" if row["phases"][phase] else ""
                      for phase in PHASES]
            travels = row["copies"]["device_to_host"]["bytes"] > 0
            points = 100 * (time["copies"]["hidden_share"] - row["copies"]["hidden_share"]) if travels else None
            hidden_errors += [abs(points)] if travels else []
            memory = (found["peak_bytes"]["hbm"] - row["peak_bytes"]["driver"]) / 1e6
            calculated = calculator_seconds(found)
            print(f"| {row['row']}{' (seen)' if seen else ''} | {measured:.3f} s | {time['seconds']['total']:.3f} s | "
                  f"{100 * error:+.1f} % | {' | '.join(phases)} | {f'{points:+.1f}' if travels else ''} | {memory:+.1f} | "
                  f"{calculated:.2f} s, {100 * (calculated / measured - 1):+.0f} % |")
    summary = [f"{len(errors)} unseen rows"]
    if errors:
        summary[0] += f": median error {100 * statistics.median(errors):.1f} %, largest {100 * max(errors):.1f} %"
    if hidden_errors:
        summary.append(f"share hidden off by at most {max(hidden_errors):.1f} points")
    print(f"\n{'; '.join(summary)}.")
    return points_drawn


def shape_of(row):
    first = row["row"].split()[0]
    return "7b" if first.endswith("K") else first  # those of steps-h200 are named by their context


def plot(points, file):
    """Error over context, a mark per row, a colour per model."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"svg.hashsalt": "oomb", "svg.fonttype": "none", "font.size": 9})
    figure, axes = pyplot.subplots(figsize=(6.4, 3.2), layout="constrained")
    for shape in sorted({shape for shape, *_ in points}):
        axes.plot(*zip(*[(context / 1024, error) for name, context, error in points if name == shape]), "o",
                  markersize=4.5, alpha=0.75, label=shape)
    axes.axhline(0, color="black", linewidth=0.6)
    axes.axhspan(-5, 5, color="black", alpha=0.05, linewidth=0)
    contexts = sorted({context // 1024 for _, context, _ in points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(contexts, [f"{context}K" for context in contexts])
    axes.set(xlabel="context, tokens", ylabel="predicted against measured, %", ylim=(-10, 10))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=4, loc="upper left")
    figure.savefig(file, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", default=ROOT / "build/bin/oomb-plan", type=pathlib.Path)
    parser.add_argument("--hardware", help="known machine or profile (default: oomb-plan's)")
    parser.add_argument("--steps", default=ROOT / "docs/measurements/steps-h200.json", type=pathlib.Path)
    parser.add_argument("--settings", default=ROOT / "docs/measurements/settings-h200.json", type=pathlib.Path)
    parser.add_argument("--plot", help="write error over context of all unseen rows", type=pathlib.Path)
    arguments = parser.parse_args()
    points = []
    hardware = ["--hardware", arguments.hardware] if arguments.hardware else []
    for file in (arguments.settings, arguments.steps):
        if file.exists():
            print(f"\n{file.name}\n")
            points += print_table(json.loads(file.read_text())["rows"], arguments.plan, hardware)
    if arguments.plot:
        plot(points, arguments.plot)


if __name__ == "__main__":
    main()
