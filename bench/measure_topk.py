#!/usr/bin/env python3
"""A step of the Qwen2.5-7B shape over top-K pages on one GPU, beside what oomb-plan said before.

    python bench/measure_topk.py [--bin build/bin] [--contexts 64K,128K,256K] [--out docs/measurements/topk-h200.json]
    python bench/measure_topk.py --metrics 256K=FILE.jsonl    # a run already made, by the command that is printed
    python bench/measure_topk.py --overhead 128K,512K,1M [--layers 4]    # what it costs to keep every page on the host
    python bench/measure_topk.py --page                       # the page alone, from the JSON

64 pages of 128 tokens, chunks of 8K, windows of 32K, nothing kept, gradients without AdamW, random weights and tokens: the lists of random
weights name pages far and near alike, which is the hardest case for the traffic and the easiest to repeat. Pages lie in GPU memory as far as they
fit, the rest on the host. One step each; the preparation is left out. Everything goes to the JSON, and the page is made from it.

--overhead: the same step with every page on the host and with every page in GPU memory, where that fits, one after the other, with lists as a real model makes
them: those of oomb-plan's model of locality, or --locality (--synthetic alone takes such lists). bf16 gradients of weights, so that more fits.
"""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from measure_steps import ROOT, gpu_state

CONTEXTS = ("64K", "128K", "256K", "512K", "1M")
STEP = "--model models/qwen2.5-7b.json --device cuda --chunk 8K --window 32K --attention topk --top-k 64 --offload host --host-memory 110GiB --no-optimizer"
# Seconds of the public code of "Out of the Memory Barrier" (arXiv 2602.02108), sparse with its own settings: chunks of 4K, 64 pages. 64K was
# measured on an H200, 128K is reckoned from three layers there, 256K is as published.
REFERENCE = {"64K": 32.7, "128K": 68, "256K": 201}
# Seconds that the arithmetic alone takes at sustained rates: 8 N, two forwards of attention.
FLOORS = {"64K": 7.7, "128K": 15.9, "256K": 32.3, "512K": 65.0, "1M": 130}
GIB = 2**30


# docs/measurements/locality-smollm2.md says of which model and text.
LOCALITY = "0.516,1.955,1.336"
OVERHEAD_STEP = ("--device cuda --chunk 8K --window 32K --attention topk --top-k 64 --no-optimizer --gradient-dtype bf16")
PLACES = {"host": "--offload host --hbm-pages ring --host-memory 110GiB", "hbm": "--offload none"}


def run(*words, allowed=(0,)):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, cwd=ROOT)
    if done.returncode not in allowed:
        sys.exit(f"{shlex.join(map(str, words))}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout if done.returncode == 0 else None


def command_of(context):
    return f"oomb-train --synthetic {STEP} --context {context} --steps 1"


def planned(folder, words):
    """None where it does not fit."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "plan.json"
        if run(folder / "oomb-plan", *words, "--json", out, allowed=(0, 3)) is None:
            return None
        plan = json.loads(out.read_text())
    return {"peak_bytes": plan["peak_bytes"], "time": plan["time"]}


def measured(folder, words):
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "metrics.jsonl"
        run(folder / "oomb-train", "--synthetic", *words, "--steps", 1, "--metrics", out)
        return last_step(out)


def last_step(metrics):
    step = json.loads(Path(metrics).read_text().splitlines()[-1])
    step.pop("flop_utilisation", None)  # of dense attention's FLOPs: says nothing here
    return step


def side(folder, words):
    """One step: predicted and measured; None where it does not fit."""
    plan = planned(folder, words)
    if plan is None:
        return None
    step = measured(folder, words)
    print(f"  {step['seconds']['total']:.2f} s", flush=True)
    return {"planned": plan, "measured": step}


def overhead(arguments, context):
    """Steps over `context` with pages in either place; the model cut to --layers."""
    with tempfile.TemporaryDirectory() as scratch:
        model = ROOT / "models/qwen2.5-7b.json"
        config = json.loads(model.read_text())
        if arguments.layers:
            config["num_hidden_layers"] = arguments.layers
            model = Path(scratch) / "config.json"
            model.write_text(json.dumps(config))
        words = ["--model", model, "--context", context, *OVERHEAD_STEP.split(), "--locality", arguments.locality]
        found = {"layers": config["num_hidden_layers"], "locality": arguments.locality,
                 "command": f"oomb-train --synthetic {shlex.join(map(str, words))} {PLACES['host']} --steps 1".replace(f"{ROOT}/", "").replace(f"{scratch}/", "")}
        for place, flags in PLACES.items():
            print(f"overhead, {context}, {place}", flush=True)
            found[place] = side(arguments.bin, [*words, *flags.split()])
    return found


def overhead_cells(row):
    context, host, hbm = row["context"], row["host"], row["hbm"]
    seconds = host["measured"]["seconds"]["total"]
    inside = hbm["measured"]["seconds"]["total"] if hbm else None
    told = host["planned"]["time"]["seconds"]["total"]
    copies = host["measured"]["copies"]
    return [context, str(row["layers"]), f"{inside:.2f} s" if inside else "does not fit", f"{seconds:.2f} s",
            f"{100 * (seconds / inside - 1):+.2f} %" if inside else "", f"{told:.2f} s", f"{100 * (told / seconds - 1):+.1f} %",
            f"{100 * copies['hidden_share']:.1f} %", *(f"{copies[way]['bytes'] / GIB:.1f} GiB" for way in ("host_to_device", "device_to_host")),
            *(f"{host['measured']['peak_bytes'][key] / GIB:.1f} GiB" for key in ("driver", "host"))]


def overhead_page(result):
    rows = sorted(result.get("overhead", {}).values(), key=lambda row: CONTEXTS.index(row["context"]))
    if not rows:
        return []
    head = ["context", "layers", "in GPU memory", "on the host", "overhead", "predicted", "error", "copies hidden", "to the device", "to the host",
            "GPU memory", "host memory"]
    return ["", "## Every page on the host", "",
            f"The same shape and cut, lists as a real model makes them (`--locality {rows[0]['locality']}`: sink, recency, zipf), gradients of weights in bf16. All pages in",
            "GPU memory, where that fits, and all on the host behind a ring of frames, one step each. *Predicted*, *error* and all behind them are of the step with pages on the host.", "",
            *(f"- Command: `{row['command']}`; {row['oomb']}." for row in rows), "",
            "| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *("| " + " | ".join(overhead_cells(row)) + " |" for row in rows)]


def cells(context, row):
    step, plan = row["measured"], row["planned"]
    seconds, told = step["seconds"]["total"], plan["time"]["seconds"]["total"]
    moved = sum(step["copies"][side]["bytes"] for side in ("host_to_device", "device_to_host"))
    beside = f"{REFERENCE[context]} s, {REFERENCE[context] / seconds:.1f} x" if context in REFERENCE else ""
    return [context, f"{told:.1f} s", f"{seconds:.1f} s", f"{100 * (told / seconds - 1):+.1f} %", f"{step['tokens_per_second']:,.0f}",
            *(f"{step['seconds'][phase]:.1f} s" for phase in ("fill", "forward", "backward")), f"{FLOORS[context]} s", beside,
            f"{moved / GIB:.2f} GiB", f"{step['peak_bytes']['driver'] / GIB:.1f} GiB", f"{step['peak_bytes']['host'] / GIB:.1f} GiB",
            f"{step['device']['watts']:.0f} W, {step['device']['clock_mhz']} MHz"]


def page(result):
    head = ["context", "predicted", "measured", "error", "tokens/s", "fill", "forward", "backward", "arithmetic alone", "reference",
            "both ways over PCIe", "GPU memory", "host memory", "card"]
    rows = [cells(context, result["rows"][context]) for context in CONTEXTS if context in result["rows"]]
    return "\n".join([
        "# Steps over top-K pages on one H200", "",
        "The Qwen2.5-7B shape, K = 64 pages of 128 tokens, chunks of 8K, nothing kept, gradients without AdamW, random weights and tokens, one step each. Pages",
        "lie in GPU memory as far as they fit. *Predicted* is what `oomb-plan` says, with the lists of its own model. *Arithmetic alone*: matrix products (each layer's",
        "forward twice) and attention at the rates this card sustains, nothing else. *Reference*: the public code of arXiv 2602.02108, sparse, as it comes (chunks of 4K,",
        "64 pages); 64K measured on an H200, 128K reckoned from three layers there, 256K as published.", "",
        *(f"- Command: `{result['rows'][context]['command']}`; {result['rows'][context]['oomb']}." for context in CONTEXTS if context in result["rows"]),
        f"- Machine: {result['machine']}.", "",
        "| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *("| " + " | ".join(row) + " |" for row in rows),
        *overhead_page(result)]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=ROOT / "build/bin", type=Path, help="folder of the programs")
    parser.add_argument("--contexts", default="64K,128K,256K")
    parser.add_argument("--overhead", default="", metavar="CONTEXTS", help="contexts for pages on the host beside pages in GPU memory")
    parser.add_argument("--layers", type=int, help="with --overhead: the model cut to so many layers")
    parser.add_argument("--locality", default=LOCALITY, help="with --overhead: (default: %(default)s)")
    parser.add_argument("--metrics", metavar="CONTEXT=FILE", help="metrics of a run of the printed command, in place of a run")
    parser.add_argument("--oomb", help="with --metrics: version and commit of that run")
    parser.add_argument("--machine", help="with --metrics: the machine of that run")
    parser.add_argument("--out", default=ROOT / "docs/measurements/topk-h200.json", type=Path)
    parser.add_argument("--page", action="store_true", help="make the page from the JSON and stop")
    arguments = parser.parse_args()
    found = dict([arguments.metrics.split("=", 1)]) if arguments.metrics else {}
    overheads = [name for name in arguments.overhead.split(",") if name]
    contexts = [] if arguments.page or overheads else list(found) or arguments.contexts.split(",")
    if unknown := [name for name in contexts + overheads if name not in CONTEXTS]:
        sys.exit(f"contexts: {', '.join(unknown)} unknown; there are {', '.join(CONTEXTS)}")
    result = json.loads(arguments.out.read_text()) if arguments.out.exists() else {"rows": {}}
    for context in contexts:
        print(command_of(context), flush=True)
        file = found.get(context)
        words = [*STEP.split(), "--context", context]
        step = last_step(file) if file else measured(arguments.bin, words)
        version = arguments.oomb if file else " ".join(run(arguments.bin / "oomb-train", "--version").split())
        result["machine"] = arguments.machine if file else "; ".join((gpu_state() or "not said").splitlines())
        result["rows"][context] = {"command": command_of(context), "oomb": version, "planned": planned(arguments.bin, words), "measured": step}
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    for context in overheads:
        row = {"context": context, **overhead(arguments, context), "oomb": " ".join(run(arguments.bin / "oomb-train", "--version").split())}
        result.setdefault("overhead", {})[f"{context}, {row['layers']} layers"] = row
        result["machine"] = "; ".join((gpu_state() or "not said").splitlines())
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    arguments.out.with_suffix(".md").write_text(page(result))


if __name__ == "__main__":
    main()
