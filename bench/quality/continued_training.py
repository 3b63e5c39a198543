#!/usr/bin/env python3
"""A pretrained model trained on at long contexts: dense beside top-K, local and random pages, from the same weights on the same tokens.

    python bench/quality/continued_training.py --preset h200 --model smollm2 --scratch build/continued --out docs/measurements/continued-h200.json
        [--text FOLDER...] [--minutes 9] [--set context=65536 steps=100]
    python bench/quality/continued_training.py ... --page                                  # page and plot alone, from the JSON

Text (default: the Python files of this installation's standard library and packages) is tokenised once, in the order of its names; the
documents at its end are held out. A seed is an order of the training sequences. Rows: the model as it came, evaluated under each attention,
its recall and gradient error under top-K; for each method and seed the training, its evaluation under the attention it was trained with,
and under dense attention. Everything is kept as it comes, trained models and checkpoints in --scratch, so that a run that ended goes on; a
training that --minutes end goes on from its checkpoint.
"""

import argparse
import hashlib
import json
import shutil
import statistics
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import numpy
from rows import (METHODS, NAMES, ROOT, Rows, add_flags, chosen, local_window, method_flags, overrides, read_metrics, run, save_figure,
                  shape_flags, shown, version_of)

sys.path.append(str(ROOT / "bench"))
from train_beside_transformers import stretched_model  # noqa: E402

# `held_out` are sequences. The flags are those of the device. A RoPE base above 0 takes the place of the model's own, so that the context lies
# inside the positions that it can tell apart. oomb-plan predicts seven minutes a row at most on an H200.
PRESETS = {
    "h200": {"context": 32768, "chunk": 4096, "page_tokens": 128, "window": 16384, "top_k": 32, "steps": 150, "batch": 2, "learning_rate": 1e-4,
             "warmup": 10, "held_out": 32, "rope_theta": 5e5, "flags": "--device cuda"},
    "h200-256k": {"context": 262144, "chunk": 8192, "page_tokens": 128, "window": 32768, "top_k": 64, "steps": 16, "batch": 1, "learning_rate": 1e-4,
                  "warmup": 2, "held_out": 4, "rope_theta": 4e6, "flags": "--device cuda --offload host"},
    "smoke": {"context": 128, "chunk": 32, "page_tokens": 8, "window": 128, "top_k": 2, "steps": 4, "batch": 2, "learning_rate": 1e-3, "warmup": 1,
              "held_out": 2, "rope_theta": 0.0, "flags": "--device cpu --dtype fp32 --threads 1"},
}
COVERED = {"top_k": "the scores' choice (top-K)", "best": "the best choice", "latest": "the latest", "random": "random"}
ERRORS = {"cosine": "cosine", "norm_ratio": "norm ratio", "relative_error": "relative error"}
LEAST_SECONDS = 60  # of a piece of a training that may go on at the next call
LOOKS = (("recall", "dense"), ("gradient error", "topk"))  # into the model as it came


def tokenised(model, text, tokens, out):
    """At least `tokens` tokens, and where documents begin."""
    if not out.is_file():
        folders = text or [sysconfig.get_path("stdlib"), *sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})]
        command = [sys.executable, ROOT / "tools/tokenize.py", "--model", model, "--out", out, "--invalid-utf8", "skip", "--limit-tokens", tokens,
                   *([] if text else ["--include", "*.py"]), *folders]
        subprocess.run(list(map(str, command)), check=True)
    return numpy.load(out, mmap_mode="r"), json.loads(out.with_name(out.name + ".json").read_text())["documents"]


def split(tokens, documents, needed, held_out):
    """Training tokens and held-out ones, which begin with a document: the first border that leaves the training enough."""
    border = next((first for first in documents if first >= needed), None)
    if border is None or len(tokens) - border < held_out:
        sys.exit(f"text: {len(tokens):,} tokens; training takes {needed:,}, and held out are {held_out:,} behind the next border of a document. "
                 "Give more --text, or less to --set steps, batch, context or held_out")
    return tokens[:needed], tokens[border:border + held_out]


def prepare(model, text, scratch, setting, seeds):
    """Token files of every seed's order and of what is held out. Sequences change places whole; the last target of each is the first token of
    the one behind it."""
    scratch.mkdir(parents=True, exist_ok=True)
    context, count = setting["context"], setting["steps"] * setting["batch"]
    held_tokens, slack = setting["held_out"] * context + 1, 4 * context  # a document may be long
    total = count * context + 1 + held_tokens + max(slack, 1 << 20)
    tokens, documents = tokenised(model, text, total, scratch / f"text-{total}.npy")
    training, held_out = split(tokens, documents, count * context + 1, held_tokens)
    name = f"{context}-{count}"
    files = {"held out": scratch / f"held-out-{name}-{setting['held_out']}.npy"}
    numpy.save(files["held out"], held_out)
    for seed in seeds:
        files[seed] = scratch / f"order-{seed}-{name}.npy"
        order = numpy.random.default_rng(seed).permutation(count)
        numpy.save(files[seed], numpy.concatenate([training[:-1].reshape(count, context)[order].reshape(-1), training[-1:]]))
    return files


class Runs:
    """Measures rows; `model` is where all begin."""

    def __init__(self, arguments, setting, seeds):
        self.train, self.model, self.scratch = arguments.bin.resolve() / "oomb-train", arguments.model.resolve(), arguments.scratch.resolve()
        self.setting = setting
        if setting["rope_theta"] > 0:
            self.scratch.mkdir(parents=True, exist_ok=True)
            self.model = stretched_model(SimpleNamespace(out=self.scratch, model=self.model, rope_theta=setting["rope_theta"],
                                                         context=setting["context"]))
        self.files = prepare(self.model, arguments.text, self.scratch, setting, seeds)

    def shown(self, command):
        return shown(command, self.scratch, self.train.parent, self.model.parent)

    def trained(self, method, seed):
        return self.scratch / f"trained-{method}-{seed}"

    def training(self, method, seed, seconds):
        """None where it was not done within `seconds`: the next call goes on from the checkpoint, which belongs to a setting."""
        setting, out = self.setting, self.trained(method, seed)
        key = hashlib.sha256(json.dumps(setting, sort_keys=True).encode()).hexdigest()[:12]
        metrics, state = (self.scratch / f"{name}-{method}-{seed}-{key}" for name in ("metrics", "state"))
        if not any(state.glob("step-*/checkpoint.json")):
            metrics.unlink(missing_ok=True)
        shutil.rmtree(out, ignore_errors=True)
        command = [self.train, "--model", self.model, "--data", self.files[seed], *shape_flags(setting), *method_flags(method, setting),
                   "--steps", setting["steps"], "--gradient-accumulation", setting["batch"], "--learning-rate", setting["learning_rate"],
                   "--warmup-steps", setting["warmup"], "--seed", seed, "--out", out, "--metrics", metrics]
        run(*command, "--checkpoint", state, "--resume", seconds=seconds)
        if not out.is_dir():
            return None
        shutil.rmtree(state)
        last = json.loads(metrics.read_text().splitlines()[-1])
        return {"command": self.shown(command), "curve": read_metrics(metrics), "tokens_per_second": last["tokens_per_second"],
                "peak_bytes": last["peak_bytes"]}

    def evaluated(self, model, *words):
        """The JSON of oomb-train eval on what is held out, and the command."""
        json_file = self.scratch / "evaluation.json"
        json_file.unlink(missing_ok=True)
        command = [self.train, "eval", "--model", model, "--data", self.files["held out"], *shape_flags(self.setting), *words, "--json", json_file]
        run(*command)
        return json.loads(json_file.read_text()), self.shown(command)

    def recall(self):
        """Shares of the attention before the chunk, over all layers, by number of pages."""
        found, command = self.evaluated(self.model, "--attention", "dense", "--recall", "--sequences", min(4, self.setting["held_out"]))
        shares = []
        for pages in sorted({row["pages"] for row in found["recall"] if row["query_pages"]}):
            rows = [row for row in found["recall"] if row["pages"] == pages]
            history = sum(row["history_mass"] for row in rows)
            shares.append({"pages": pages, "of_all": history / sum(row["all_mass"] for row in rows),
                           **{key: sum(row[key] for row in rows) / history for key in COVERED}})
        return {"command": command, "loss": found["loss"], "recall": shares}

    def gradient_error(self):
        """Of one sequence: means over layers, by number of pages."""
        budgets = ",".join(str(pages) for pages in sorted({max(1, self.setting["top_k"] // 4), self.setting["top_k"]}))
        found, command = self.evaluated(self.model, "--attention", "topk", "--gradient-error", "--budgets", budgets)
        errors = []
        for pages, of in dict.fromkeys((row["pages"], row["of"]) for row in found["gradient_error"]):
            rows = [row for row in found["gradient_error"] if (row["pages"], row["of"]) == (pages, of)]
            errors.append({"pages": pages, "of": of, **{key: statistics.mean(row[key] for row in rows) for key in ERRORS}})
        return {"command": command, "loss": found["dense_loss"], "gradient_error": errors}

    def evaluation(self, model, method, seed):
        drawn = ["--seed", seed] if method == "random" else []
        found, command = self.evaluated(model, *method_flags(method, self.setting), *drawn)
        return {"command": command, "loss": found["loss"],
                "buckets": [{key: bucket[key] for key in ("first", "end", "loss")} for bucket in found["buckets"]]}


def row_names(methods, seeds):
    """What is to be measured, in order: a training before what is evaluated of it, and every method before the next seed."""
    names = [("start", method, 0) for method in methods] + [(kind, method, 0) for kind, method in LOOKS if method in methods]
    for seed in seeds:
        for method in methods:
            names += [("training", method, seed), ("own", method, seed)] + ([("as dense", method, seed)] if method != "dense" else [])
    return names


def measure(runs, kind, method, seed, seconds):
    if kind == "training":
        return runs.training(method, seed, seconds)
    if kind in dict(LOOKS):
        return runs.recall() if kind == "recall" else runs.gradient_error()
    if kind == "start":
        return runs.evaluation(runs.model, method, seed)
    return runs.evaluation(runs.trained(method, seed), method if kind == "own" else "dense", seed)


def of(content, kind, method):
    """Rows by seed."""
    found = {}
    for name, row in content["rows"].items():
        row_kind, row_method, seed = name.split(", ")
        if (row_kind, row_method) == (kind, method):
            found[int(seed)] = row
    return found


def spread(values, digits=4):
    values = list(values)
    if not values:
        return "-"
    mean = f"{statistics.mean(values):.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean


def differences(content, method):
    """Of the held-out loss to dense training of the same seed."""
    dense = of(content, "own", "dense")
    return [row["loss"] - dense[seed]["loss"] for seed, row in of(content, "own", method).items() if seed in dense]


def draw(content, path):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "oomb"
    from matplotlib import pyplot

    figure, (curves, positions) = pyplot.subplots(1, 2, figsize=(11, 4))
    for number, method in enumerate(METHODS):
        color, label = f"C{number}", NAMES[method]
        for seed, row in sorted(of(content, "training", method).items()):
            curves.plot(*zip(*row["curve"]), color=color, alpha=0.7, linewidth=1, label=label)
            label = None
        for kind, style in (("start", ":"), ("own", "-")):
            rows = list(of(content, kind, method).values())
            if rows:
                buckets = rows[0]["buckets"]
                means = [statistics.mean(row["buckets"][i]["loss"] for row in rows) for i in range(len(buckets))]
                positions.plot([(bucket["first"] + bucket["end"]) / 2 for bucket in buckets], means, style, color=color, marker=".",
                               label=f"{NAMES[method]}, {'as it came' if kind == 'start' else 'trained'}")
    curves.set(xlabel="step", ylabel="loss of the step (nats)", title="Training, a line per seed")
    positions.set(xlabel="position (tokens)", ylabel="held-out loss (nats)", title="Held out, by position")
    positions.set_xscale("log", base=2)
    for axes in (curves, positions):
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    save_figure(figure, path)


def totals_table(content):
    lines = ["| method | as it came | trained | difference to dense, same seed | trained, then dense attention | tokens/s in training |",
             "| --- | --- | --- | --- | --- | --- |"]
    for method in METHODS:
        if not (of(content, "start", method) or of(content, "own", method)):
            continue
        speeds = [row["tokens_per_second"] for row in of(content, "training", method).values()]
        as_dense = of(content, "own" if method == "dense" else "as dense", method).values()
        cells = [NAMES[method], spread(row["loss"] for row in of(content, "start", method).values()),
                 spread(row["loss"] for row in of(content, "own", method).values()),
                 "-" if method == "dense" else spread(differences(content, method)),
                 spread(row["loss"] for row in as_dense), f"{statistics.mean(speeds):,.0f}" if speeds else "-"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def positions_table(content):
    present = [method for method in METHODS if of(content, "own", method)]
    if not present:
        return []
    lines = ["| positions | " + " | ".join(NAMES[method] for method in present) + " |", "| --- |" + " --- |" * len(present)]
    buckets = next(iter(of(content, "own", present[0]).values()))["buckets"]
    for i, bucket in enumerate(buckets):
        cells = [spread(row["buckets"][i]["loss"] for row in of(content, "own", method).values()) for method in present]
        lines.append(f"| {bucket['first']:,} to {bucket['end'] - 1:,} | " + " | ".join(cells) + " |")
    return ["Held-out loss of the trained models by position, each under its own attention:", "", *lines]


def looks(content):
    """Recall and gradient error of the model as it came."""
    lines = []
    for row in of(content, "recall", "dense").values():
        lines += ["", "The model as it came: share of the attention on pages before the chunk, over all layers.", "",
                  "| pages | " + " | ".join(COVERED.values()) + " | before the chunk, of all |", "| --- |" + " --- |" * (len(COVERED) + 1)]
        for one in row["recall"]:
            lines.append(f"| {one['pages']} | " + " | ".join(f"{one[key]:.3f}" for key in COVERED) + f" | {one['of_all']:.3f} |")
    for row in of(content, "gradient error", "topk").values():
        lines += ["", "The model as it came: gradients under top-K beside dense ones, of one sequence; means over layers.", "",
                  "| pages | gradient of | " + " | ".join(ERRORS.values()) + " |", "| --- | --- |" + " --- |" * len(ERRORS)]
        for one in row["gradient_error"]:
            lines.append(f"| {one['pages']} | {one['of']} | " + " | ".join(f"{one[key]:.3f}" for key in ERRORS) + " |")
    return lines


def page(content, plot):
    setting = next(iter(content["rows"].values()))["setting"]
    rope = f", RoPE base {setting['rope_theta']:g} in place of its own" if setting["rope_theta"] else ""
    commands = [row["command"] for name, row in content["rows"].items() if name.startswith(("training, topk, ", "own, topk, "))][:2]
    return "\n".join([
        "# A pretrained model trained on, dense and over fewer keys", "",
        f"{content['model']}, {setting['steps']} steps of {setting['batch']} x {setting['context']:,} tokens of {content['text']}, learning rate "
        f"{setting['learning_rate']:g}, cosine{rope}; evaluated on {setting['held_out']} sequences",
        "of documents held out. Chunks of "
        f"{setting['chunk']:,}, pages of {setting['page_tokens']}, K = {setting['top_k']}; local: windows of {local_window(setting):,} tokens, as "
        "many keys as a query sees on average under top-K.",
        "A seed is an order of the training sequences; ± is the standard deviation over seeds. Losses in nats per token. Made by "
        "`bench/quality/continued_training.py`.", "",
        f"- {content['oomb']}; {content['machine']}.", *(f"- {text}" for text in content.get("remarks", [])), "",
        f"![training and held-out losses]({plot.name})", "", *totals_table(content), "", *positions_table(content), *looks(content), "", "Commands:", "",
        *(f"    {command}" for command in commands)]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_flags(parser, PRESETS, ROOT / "docs/measurements/continued-training.json")
    parser.add_argument("--model", type=Path, help="Hugging Face folder with a tokenizer.json")
    parser.add_argument("--text", nargs="*", default=[], help="files and folders, in place of Python's own sources")
    parser.add_argument("--machine", default="machine not named", help="for the page")
    arguments = parser.parse_args()
    if not arguments.page and arguments.model is None:
        parser.error("--model is required: where all rows begin")
    setting = overrides(PRESETS[arguments.preset], arguments.set)
    rows = Rows(arguments.out, {})
    if not arguments.page:
        seeds = [int(seed) for seed in arguments.seeds.split(",")]
        runs = Runs(arguments, setting, seeds)
        rows.content.update(oomb=version_of(runs.train), machine=arguments.machine, model=arguments.model.name,
                            text=", ".join(Path(path).name for path in arguments.text) or "Python files")
        names = row_names(chosen(arguments.methods, METHODS, "--methods"), seeds)
        left = [name for name in names if not rows.has(", ".join(map(str, name)), setting)]
        for number, (kind, method, seed) in enumerate(left):
            cut = kind == "training" and (arguments.minutes is None or rows.seconds_left(arguments.minutes) > LEAST_SECONDS)
            if number > 0 and not cut and not rows.time_left(arguments.minutes):
                print(f"{len(left) - number} rows are left: run the same command again", flush=True)
                break
            row = rows.make(f"{kind}, {method}, {seed}", setting, lambda: measure(runs, kind, method, seed, rows.seconds_left(arguments.minutes)))
            if row is None:
                print(f"{kind}, {method}, {seed}: not done in time, goes on from its checkpoint: run the same command again", flush=True)
                break
            print(f"{kind}, {method}, {seed}: loss {row['loss'] if 'loss' in row else row['curve'][-1][1]:.4f}, {row['seconds']:.0f} s", flush=True)
    if not rows.rows:
        sys.exit(f"{arguments.out}: no row yet")
    plot = arguments.out.with_suffix(".svg")
    draw(rows.content, plot)
    arguments.out.with_suffix(".md").write_text(page(rows.content, plot))


if __name__ == "__main__":
    main()
