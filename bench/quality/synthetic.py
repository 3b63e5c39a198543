#!/usr/bin/env python3
"""Small models trained from random weights on the tasks of synthetic_tasks.py, under dense attention and three that see as many keys.

    python bench/quality/synthetic.py --preset h200 --scratch build/synthetic --out docs/measurements/synthetic-tasks-h200.json [--minutes 9]
    python bench/quality/synthetic.py --preset cpu --scratch build/synthetic --out docs/measurements/synthetic-tasks-cpu.json
    python bench/quality/synthetic.py --preset cpu --scratch build/synthetic --out ... --page     # page and plot alone, from the JSON

A row is a task, a method and a seed (of weights, data and random pages): oomb-train on fresh sequences, then oomb-train eval on held-out ones, the
same for all rows, with the attention it was trained with; counted are losses of answers alone. Budget: top-K and random K see their chunk and K
pages; local sees as many keys on average. The distance of the copy task is beyond what local windows of all layers carry. Rows that the JSON has
are kept, so a run that ended goes on.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

import numpy
from rows import (METHODS, NAMES, ROOT, Rows, add_flags, chosen, local_window, method_flags, overrides, read_metrics, run, save_figure,
                  shape_flags, shown, version_of)
from synthetic_tasks import TASKS, score, write_file

# `flags` are those of the device. Of the copy task the distance follows from the rest. oomb-plan predicts seven minutes a row at most on an H200.
SMALL = {"context": 128, "chunk": 32, "page_tokens": 8, "window": 128, "top_k": 2, "layers": 1, "hidden": 128, "heads": 4, "kv_heads": 4,
         "head_dim": 32, "ffn": 256, "batch": 16, "copy_steps": 320, "copy_learning_rate": 5e-3, "count_steps": 640, "count_learning_rate": 2e-3,
         "warmup": 50, "held_out": 128, "segment": 16, "symbols": 4, "kinds": 4, "most": 3, "filler": 2, "flags": "--device cpu --dtype fp32 --threads 1"}
PRESETS = {
    "cpu": SMALL,
    "smoke": {**SMALL, "copy_steps": 3, "count_steps": 3, "batch": 2, "warmup": 1, "held_out": 4},
    "h200": {**SMALL, "context": 32768, "chunk": 2048, "page_tokens": 128, "window": 16384, "top_k": 16, "layers": 4, "hidden": 256, "heads": 4,
             "head_dim": 64, "ffn": 768, "batch": 8, "copy_steps": 400, "copy_learning_rate": 3e-3, "count_steps": 400, "held_out": 32,
             "segment": 1024, "kinds": 64, "most": 31, "flags": "--device cuda"},
}
PRESETS["h200-4k"] = {**PRESETS["h200"], "context": 4096, "chunk": 512, "page_tokens": 128, "window": 4096, "top_k": 2, "batch": 16,
                      "copy_steps": 500, "count_steps": 500, "segment": 256, "kinds": 16, "most": 15, "held_out": 128}


def task_of(name, setting):
    if name == "copy":
        return TASKS[name](setting["context"], setting["layers"] * local_window(setting), setting["segment"], setting["symbols"], setting["filler"])
    return TASKS[name](setting["context"], setting["kinds"], setting["most"], setting["filler"])


def model_config(task, setting):
    """Vocabulary in whole eights, which GPUs like. With norms of queries and keys: attention is sharp from the begin, and learns sooner."""
    return {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "hidden_act": "silu",
            "vocab_size": (task.vocab + 7) // 8 * 8, "hidden_size": setting["hidden"], "num_hidden_layers": setting["layers"],
            "num_attention_heads": setting["heads"], "num_key_value_heads": setting["kv_heads"], "head_dim": setting["head_dim"], "intermediate_size": setting["ffn"],
            "max_position_embeddings": setting["context"], "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": False,
            "torch_dtype": "float32"}


def measure(train, scratch, name, method, seed, setting):
    """One row. Data is made anew unless it is there; a model that was trained is thrown away when it has been evaluated."""
    task = task_of(name, setting)
    folder = scratch / f"{name}-{method}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    config, data, held_out = folder / "config.json", folder / "train.npy", folder / "held-out.npy"
    config.write_text(json.dumps(model_config(task, setting)))
    steps = setting[f"{name}_steps"]
    write_file(data, name, task, steps * setting["batch"], seed)
    write_file(held_out, name, task, setting["held_out"], 1_000_000)
    attention = method_flags(method, setting)
    training = [train, "--model", config, "--from-scratch", "--data", data, *shape_flags(setting), *attention, "--steps", steps,
                "--gradient-accumulation", setting["batch"], "--learning-rate", setting[f"{name}_learning_rate"], "--warmup-steps", setting["warmup"],
                "--seed", seed, "--out", folder / "trained", "--metrics", folder / "metrics.jsonl"]
    evaluation = [train, "eval", "--model", folder / "trained", "--data", held_out, *shape_flags(setting), *attention,
                  *(["--seed", seed] if method == "random" else []), "--losses", folder / "losses.npy"]
    run(*training)
    run(*evaluation)
    found = score(numpy.load(folder / "losses.npy"), numpy.load(held_out.with_suffix(".answers.npy")))
    row = {"task": name, "method": method, "seed": seed, **found,
           "commands": [shown(words, folder, train.parent) for words in (training, evaluation)], "guessing": task.guessing,
           "training": read_metrics(folder / "metrics.jsonl")}
    for path in sorted((folder / "trained").iterdir()) + [data]:
        path.unlink()
    return row


def of_method(rows, task, method):
    return [row for row in rows.values() if row["task"] == task and row["method"] == method]


def draw(rows, path):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "oomb"
    from matplotlib import pyplot

    tasks = [task for task in TASKS if any(row["task"] == task for row in rows.values())]
    figure, grid = pyplot.subplots(1, len(tasks), figsize=(4.6 * len(tasks), 3.6), squeeze=False)
    for axes, task in zip(grid[0], tasks):
        for place, method in enumerate(METHODS):
            losses = [row["loss"] for row in of_method(rows, task, method)]
            if losses:
                axes.bar(place, statistics.mean(losses), color="0.8")
                axes.plot([place] * len(losses), losses, "o", color="C0", markersize=4)
        axes.axhline(next(row["guessing"] for row in rows.values() if row["task"] == task), color="C3", linestyle="--", label="guessing")
        axes.set_xticks(range(len(METHODS)), [NAMES[method] for method in METHODS])
        axes.set_ylabel("loss of answers (nats)")
        axes.set_title(task)
        axes.legend()
    save_figure(figure, path)


def table(rows):
    lines = ["| task | method | seeds | loss of answers, mean (each) | answers with more than half of the probability, mean (each) |",
             "| --- | --- | --- | --- | --- |"]
    for task in TASKS:
        for method in METHODS:
            found = sorted(of_method(rows, task, method), key=lambda row: row["seed"])
            if not found:
                continue
            losses, known = ([row[key] for row in found] for key in ("loss", "known"))
            lines.append(f"| {task} | {NAMES[method]} | {', '.join(str(row['seed']) for row in found)} | {statistics.mean(losses):.3f} "
                         f"({', '.join(f'{loss:.3f}' for loss in losses)}) | {100 * statistics.mean(known):.1f} % "
                         f"({', '.join(f'{100 * share:.1f}' for share in known)}) |")
    return lines


def page(content, plot):
    rows = content["rows"]
    first = next(iter(rows.values()))
    setting, window = first["setting"], local_window(first["setting"])
    guessing = {row["task"]: row["guessing"] for row in rows.values()}
    lengths = "; ".join(f"{task}: {setting[f'{task}_steps']} steps of {setting['batch']} sequences, learning rate "
                        f"{setting[f'{task}_learning_rate']:g}, cosine" for task in guessing)
    return "\n".join([
        "# What four kinds of attention learn of two synthetic tasks", "",
        "Models from random weights, trained and evaluated with the attention that the row names, on sequences drawn by",
        "[bench/quality/synthetic_tasks.py](../../bench/quality/synthetic_tasks.py); made by `bench/quality/synthetic.py`. Losses count answers alone, of",
        f"{setting['held_out']} held-out sequences. *copy*: a segment of {setting['segment']} symbols, each one of {setting['symbols']}, must be repeated, at "
        f"least {setting['layers'] * window:,} tokens after it ended.",
        f"*count*: of {setting['kinds']} kinds of marks, 0 to {setting['most']} each, spread over the whole context, the numbers. One who guesses loses "
        + " and ".join(f"{loss:.3f} nats ({task})" for task, loss in guessing.items()) + ".", "",
        f"Contexts of {setting['context']:,} tokens, chunks of {setting['chunk']:,}, pages of {setting['page_tokens']}, K = {setting['top_k']} pages; local: "
        f"windows of {window:,} tokens, as many keys as a query sees on",
        f"average under top-K. Layers: {setting['layers']}, of {setting['hidden']} with {setting['heads']} query and {setting['kv_heads']} K/V heads. "
        f"Training: {lengths}.", "",
        f"- {content['oomb']}; {content['machine']}.", *(f"- {text}" for text in content.get("remarks", [])), "",
        f"![loss of answers]({plot.name})", "", *table(rows), "", "Commands of the first row:", "",
        *(f"    {command}" for command in first["commands"])]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_flags(parser, PRESETS, ROOT / "docs/measurements/synthetic-tasks.json")
    parser.add_argument("--tasks", default=",".join(TASKS), help="(default: %(default)s)")
    parser.add_argument("--machine", default="machine not named", help="for the page")
    arguments = parser.parse_args()
    setting = overrides(PRESETS[arguments.preset], arguments.set)
    train = arguments.bin.resolve() / "oomb-train"
    rows = Rows(arguments.out, {} if arguments.page else {"oomb": version_of(train), "machine": arguments.machine})
    names = [] if arguments.page else [(task, method, int(seed)) for seed in arguments.seeds.split(",")
                                       for task in chosen(arguments.tasks, TASKS, "--tasks")
                                       for method in chosen(arguments.methods, METHODS, "--methods")]
    left = [name for name in names if not rows.has(" ".join(map(str, name)), setting)]
    for number, (task, method, seed) in enumerate(left):
        if number > 0 and not rows.time_left(arguments.minutes):
            print(f"{len(left) - number} rows are left: run the same command again", flush=True)
            break
        row = rows.make(f"{task} {method} {seed}", setting, lambda: measure(train, arguments.scratch.resolve(), task, method, seed, setting))
        print(f"{task} {method} {seed}: loss {row['loss']:.3f} (guessing {row['guessing']:.3f}), known {100 * row['known']:.1f} %, "
              f"{row['seconds']:.0f} s", flush=True)
    if not rows.rows:
        sys.exit(f"{arguments.out}: no row yet")
    plot = arguments.out.with_suffix(".svg")
    draw(rows.rows, plot)
    arguments.out.with_suffix(".md").write_text(page(rows.content, plot))


if __name__ == "__main__":
    main()
