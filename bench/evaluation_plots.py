#!/usr/bin/env python3
"""Draws what oomb-train eval wrote (docs/evaluation.md).

    bench/evaluation_plots.py FILE... --out FOLDER

loss.png             loss by position, a line per file
recall.png           share of the attention before the chunk that K pages cover, of the first file that has it
recall_layers.png    the same by layer, for the pages that top-K takes
distances.png        how far before the chunk these pages lie
gradient_error.png   cosine and relative error of gradients under top-K, by layer, of the first file that has them
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

COVERED = {"best": "best K", "top_k": "top-K", "latest": "latest K", "random": "random K"}


def read(path):
    content = json.loads(Path(path).read_text())
    if content.get("format") != "oomb-evaluation" or content.get("version") != 1:
        raise SystemExit(f"{path}: no oomb-evaluation of version 1; give files of oomb-train eval --json")
    return content


def label_of(content):
    run = content["run"]
    pages = f" K={run['top_k']}" if "top_k" in run else ""
    seed = f" seed {run['seed']}" if "seed" in run else ""
    return run["attention"] + pages + seed


def save(figure, axes, path, title):
    axes.set_title(title)
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    print(path)


def draw_loss(contents, out):
    figure, axes = pyplot.subplots()
    for content in contents:
        buckets = [bucket for bucket in content.get("buckets", []) if bucket["valid_targets"]]
        if buckets:
            middles = [(bucket["first"] + bucket["end"]) / 2 for bucket in buckets]
            axes.plot(middles, [bucket["loss"] for bucket in buckets], marker="o", label=label_of(content))
    if not axes.lines:
        return pyplot.close(figure)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("position (tokens)")
    axes.set_ylabel("loss (nats)")
    save(figure, axes, out / "loss.png", "Loss by position")


def draw_recall(recall, out):
    budgets = sorted({row["pages"] for row in recall if row["query_pages"]})
    figure, axes = pyplot.subplots()
    for key, label in COVERED.items():
        shares = []
        for budget in budgets:
            rows = [row for row in recall if row["pages"] == budget]
            shares.append(sum(row[key] for row in rows) / sum(row["history_mass"] for row in rows))
        axes.plot(budgets, shares, marker="o", label=label)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("pages K")
    axes.set_ylabel("share of the attention before the chunk")
    save(figure, axes, out / "recall.png", "Recall, all layers")


def draw_recall_by_layer(recall, out):
    figure, axes = pyplot.subplots()
    for budget in sorted({row["pages"] for row in recall if row["query_pages"]}):
        rows = [row for row in recall if row["pages"] == budget]
        axes.plot([row["layer"] for row in rows], [row["top_k"] / row["history_mass"] for row in rows], marker=".",
                  label=f"K={budget}")
    axes.set_xlabel("layer")
    axes.set_ylabel("share covered by top-K")
    save(figure, axes, out / "recall_layers.png", "Recall by layer")


def draw_distances(recall, out):
    figure, axes = pyplot.subplots()
    for budget in sorted({row["pages"] for row in recall if row["query_pages"]}):
        sums = [sum(bins) for bins in zip(*(row["distances"] for row in recall if row["pages"] == budget))]
        last = max(i for i, count in enumerate(sums) if count) + 1
        axes.plot([2**i for i in range(last)], [count / sum(sums) for count in sums[:last]], marker=".",
                  label=f"K={budget}")
    axes.set_xscale("log", base=2)
    axes.set_xlabel("distance before the chunk (pages, from)")
    axes.set_ylabel("share of the pages taken")
    save(figure, axes, out / "distances.png", "Distance of the pages that top-K takes")


def draw_gradient_error(rows, out):
    by_line = defaultdict(list)
    for row in rows:
        if row["layer"] is not None:
            by_line[row["of"], row["pages"]].append(row)
    names = sorted({name for name, _ in by_line})
    figure, grid = pyplot.subplots(2, len(names), figsize=(4.5 * len(names), 7), squeeze=False)
    for column, name in enumerate(names):
        for axes, key in zip(grid[:, column], ("cosine", "relative_error")):
            for (of, pages), line in sorted(by_line.items()):
                if of == name:
                    axes.plot([row["layer"] for row in line], [row[key] for row in line], marker=".", label=f"K={pages}")
            axes.set_title(name)
            axes.set_xlabel("layer")
            axes.set_ylabel(key.replace("_", " "))
            axes.grid(alpha=0.3)
            axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(out / "gradient_error.png", dpi=120)
    pyplot.close(figure)
    print(out / "gradient_error.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    contents = [read(path) for path in arguments.files]
    draw_loss(contents, arguments.out)
    measured = [content["recall"] for content in contents if any(r["query_pages"] for r in content.get("recall", []))]
    if measured:
        draw_recall(measured[0], arguments.out)
        draw_recall_by_layer(measured[0], arguments.out)
        draw_distances(measured[0], arguments.out)
    errors = [content["gradient_error"] for content in contents if content.get("gradient_error")]
    if errors:
        draw_gradient_error(errors[0], arguments.out)


if __name__ == "__main__":
    main()
