#!/usr/bin/env python3
"""Does a run that the planner lets through ever fail for want of memory?

    python bench/memory_limits.py --bin build/bin --device cpu|cuda --out PATH [--settings 32] [--seed 0] [--jobs 1]

Random small models and settings (chunk, window, what is kept and held, where pages and optimizer states lie, types; on
the CPU top-K pages, too). For each the least --gpu-memory for which oomb-plan says that it fits is bisected to the
byte (for half of them a budget between that and all that the setting can use is drawn), then the least --host-memory
beside it. Within both oomb-train takes a step of random tokens; with a byte less of either, and with a MiB less, it
must refuse with exit code 3 before anything starts. What the step touches must be what was predicted: both arenas to
the byte (with top-K pages at most that), on a GPU the driver's figure within 1 %. Writes PATH.json and PATH.md.
"""

import argparse
import concurrent.futures
import contextlib
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent
FITS, FAILED, NO_FIT = 0, 1, 3  # exit codes
PLENTY, LEAST_BUDGET = 2**43, 2**20  # bytes; less than a MiB the flags refuse as a forgotten unit
MIB = 2**20
DRIVER_TOLERANCE = 0.01
ON_THE_GPU = threading.Lock()  # in a container the driver's figure is of all processes


@dataclass(frozen=True)
class Sizes:
    head_dims: tuple
    hidden_heads: tuple  # query heads per K/V head
    ffn: tuple
    vocabulary: tuple
    pages: tuple
    chunk_pages: tuple
    most_chunks: int


SIZES = {"cpu": Sizes((32, 64), (1, 2, 3), (256, 1024), (512, 4096), (16, 32), (1, 6), 10),
         "cuda": Sizes((64, 128), (1, 2, 7), (1024, 8192), (8192, 65536), (128,), (1, 16), 12)}


def random_model(draw, sizes):
    """A config.json of models/ made small."""
    name = draw.choice(["qwen2.5-7b", "qwen3-8b", "llama-3.1-8b", "mistral-7b-v0.3"])
    config = json.loads((ROOT / f"models/{name}.json").read_text())
    kv_heads, head_dim = draw.randint(1, 2), draw.choice(sizes.head_dims)
    heads = kv_heads * draw.choice(sizes.hidden_heads)
    config.update(num_hidden_layers=draw.randint(1, 4), num_attention_heads=heads, num_key_value_heads=kv_heads,
                  hidden_size=heads * head_dim, head_dim=head_dim, intermediate_size=8 * (draw.randint(*sizes.ffn) // 8),
                  vocab_size=8 * (draw.randint(*sizes.vocabulary) // 8), tie_word_embeddings=draw.random() < 0.5)
    return config


def random_flags(draw, device, sizes):
    page = draw.choice(sizes.pages)
    chunk, window = page * draw.randint(*sizes.chunk_pages), page * draw.randint(1, 2 * sizes.chunk_pages[1])
    context = draw.randint(chunk, sizes.most_chunks * chunk)
    flags = {"device": device, "context": context, "page-tokens": page, "chunk": chunk, "window": window,
             "logit-tile": draw.randint(max(1, chunk // 4), 2 * chunk),
             "dtype": draw.choice(["fp32", "bf16"]), "offload": draw.choice(["host", "host", "none"]),
             "keep": draw.choice(["none", "x", "o", "xo", "all", "auto"]),
             "optimizer-states": draw.choice(["hbm", "host", "auto"])}
    if flags["dtype"] == "bf16":
        flags["gradient-dtype"] = draw.choice(["fp32", "bf16"])
        flags["master-weights"] = draw.choice(["fp32", "remainder"])
    if flags["keep"] in ("x", "o", "xo", "auto"):
        flags["kept-pages"] = draw.choice(["all", "auto", str(draw.randint(0, 20))])
    if flags["keep"] in ("none", "o"):
        flags["held-chunks"] = draw.choice(["0", "1", "2", "auto", "all"])
    if flags["offload"] == "host":
        flags["hbm-pages"] = draw.choice(["auto", "auto", "ring", str(draw.randint(0, 60))])
    if device == "cpu" and draw.random() < 0.25:
        flags.update({"attention": "topk", "top-k": draw.randint(1, max(1, window // page))})
    if draw.random() < 0.2:
        flags["no-optimizer"] = None
        for states in ("optimizer-states", "master-weights"):  # there are none
            flags.pop(states, None)
    return flags


class Setting:
    """A model and flags; finds its limits and runs at them."""

    def __init__(self, number, bin_folder, folder, config, flags):
        self.number, self.bin, self.folder, self.flags = number, bin_folder, folder, flags
        self.folder.mkdir()
        self.model, self.plan_file = folder / "config.json", folder / "plan.json"
        self.model.write_text(json.dumps(config))

    def words(self, gpu, host):
        words = ["--model", str(self.model), "--gpu-memory", str(gpu), "--host-memory", str(host)]
        for name, value in self.flags.items():
            words += [f"--{name}"] if value is None else [f"--{name}", str(value)]
        return words

    def fits(self, gpu, host):
        command = [str(self.bin / "oomb-plan"), *self.words(gpu, host), "--json", str(self.plan_file)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode not in (FITS, NO_FIT):
            raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
        return done.returncode == FITS

    def plan(self, gpu, host):
        """Peaks and arenas by tier."""
        self.fits(gpu, host)
        plan = json.loads(self.plan_file.read_text())
        peaks = plan["peak_bytes"]
        return {"peaks": peaks, "arenas": {"hbm": peaks["hbm"] - plan["driver_bytes"],
                                           "host": peaks["host"] - plan["page_table_bytes"]}}

    def train(self, gpu, host):
        """Exit code, messages, the step's metrics."""
        metrics = self.folder / f"metrics-{gpu}-{host}.jsonl"
        command = [str(self.bin / "oomb-train"), *self.words(gpu, host), "--synthetic", "--steps", "1", "--metrics", str(metrics)]
        if self.flags["device"] == "cpu":
            command += ["--threads", "1"]
        done = subprocess.run(command, capture_output=True, text=True)
        lines = metrics.read_text().splitlines() if metrics.exists() else []
        return done.returncode, done.stderr, [json.loads(line) for line in lines]


def least(fits, enough):
    """The least budget that fits; `enough` does, and probably nothing below."""
    if enough <= LEAST_BUDGET or fits(LEAST_BUDGET):
        return LEAST_BUDGET
    if not fits(enough - 1):
        return enough
    too_small, enough = LEAST_BUDGET, enough - 1
    while enough - too_small > 1:
        middle = (too_small + enough) // 2
        too_small, enough = (too_small, middle) if fits(middle) else (middle, enough)
    return enough


def problems_of_step(setting, plan, budgets, step):
    problems = []
    sparse = "top-k" in setting.flags
    for tier in ("hbm", "host"):
        observed, predicted = step["peak_bytes"][tier], plan["arenas"][tier]
        if observed > predicted or (observed < predicted and not sparse):
            problems.append(f"{tier} arena: {observed} bytes touched, predicted {predicted}")
        if plan["peaks"][tier] > budgets[tier]:
            problems.append(f"{tier}: predicted {plan['peaks'][tier]} bytes within a budget of {budgets[tier]}")
    driver = step["peak_bytes"]["driver"]
    if driver is not None:
        if driver > budgets["hbm"]:
            problems.append(f"driver: {driver} bytes within a budget of {budgets['hbm']}")
        if abs(driver / plan["peaks"]["hbm"] - 1) > DRIVER_TOLERANCE:
            problems.append(f"driver: {driver} bytes, predicted {plan['peaks']['hbm']}")
    return problems


def problems_below(setting, gpu, host):
    """Complaints, and how many refusals were asked for."""
    problems, asked = [], 0
    for less in (1, MIB):
        for below in ((gpu - less, host), (gpu, host - less)):
            if min(below) < LEAST_BUDGET or setting.fits(*below):  # fits: the budget of the GPU is not the least
                continue
            asked += 1
            code, messages, steps = setting.train(*below)
            if code != NO_FIT or steps or "plan: device arena" in messages:
                problems.append(f"{less} bytes less, {below}: exit {code} instead of {NO_FIT}\n{messages}")
    return problems, asked


def examine(setting, draw):
    """A row of the result."""
    at_ease = setting.plan(PLENTY, PLENTY)["peaks"]
    least_gpu = gpu = least(lambda budget: setting.fits(budget, PLENTY), at_ease["hbm"])
    if draw.random() < 0.5:
        gpu = draw.randint(gpu, max(gpu, at_ease["hbm"]))
        if not setting.fits(gpu, PLENTY):
            raise RuntimeError(f"setting {setting.number}: fits into {least_gpu} bytes and not into {gpu}")
    host = least(lambda budget: setting.fits(gpu, budget), setting.plan(gpu, PLENTY)["peaks"]["host"])
    plan = setting.plan(gpu, host)
    with ON_THE_GPU if setting.flags["device"] == "cuda" else contextlib.nullcontext():
        code, messages, steps = setting.train(gpu, host)
    row = {"number": setting.number, "flags": setting.flags, "least_gpu_bytes": least_gpu,
           "budget_bytes": {"hbm": gpu, "host": host}, **plan}
    if code != FITS:
        return {**row, "refusals": 0, "problems": [f"fits, and fails: exit {code}\n{messages}"]}
    row["observed"] = {name: steps[-1]["peak_bytes"][name] for name in ("hbm", "host", "driver")}
    problems, refusals = problems_below(setting, gpu, host)
    problems += problems_of_step(setting, plan, row["budget_bytes"], steps[-1])
    return {**row, "refusals": refusals, "problems": problems}


def summary(result):
    rows = result["rows"]
    ran = [row for row in rows if "observed" in row]
    dense = [row for row in ran if "top-k" not in row["flags"]]
    exact = sum(all(row["observed"][tier] == row["arenas"][tier] for tier in ("hbm", "host")) for row in dense)
    text = (f"{len(rows)} settings at their limits on {result['device']}: {sum(not row['problems'] for row in rows)} as predicted, "
            f"both arenas to the byte in {exact} of {len(dense)} dense ones, {sum(row['refusals'] for row in rows)} runs with less refused")
    errors = [abs(row["observed"]["driver"] / row["peaks"]["hbm"] - 1) for row in ran if row["observed"]["driver"] is not None]
    return text + (f", the driver's figure off by at most {100 * max(errors):.2f} %" if errors else "")


def page(result):
    def line(row):
        flags = " ".join(f"--{name}" if value is None else f"--{name} {value}" for name, value in row["flags"].items() if name != "device")
        observed = row.get("observed", {})
        cells = [row["number"], *(f"{row['budget_bytes'][tier]:,}" for tier in ("hbm", "host")),
                 *(f"{observed.get(tier, 0):,}" for tier in ("hbm", "host")),
                 *([f"{observed['driver']:,}"] if observed.get("driver") is not None else []), flags]
        return "| " + " | ".join(map(str, cells)) + " |"

    gpu = result["device"] == "cuda"
    head = ["setting", "GPU budget", "host budget", "GPU arena", "host arena", *(["driver"] if gpu else []), "flags"]
    return "\n".join([
        f"# Settings at the limit of memory, device {result['device']}", "",
        "Random small models and settings, each within the least GPU and host memory for which `oomb-plan` says that it fits, bisected to the byte",
        "(for half of them a GPU budget above that was drawn). One step of random tokens ran within it. With a byte less, and with a MiB less,",
        "`oomb-train` refused with exit code 3 before anything started. Bytes; a budget holds, beside the arena, "
        + ("context and libraries (GPU) and" if gpu else "the") + " page tables (host);", "a MiB is the least that the flags take.", "",
        f"- Command: `{result['command']}`; {result['oomb']}.", f"- {summary(result)}.", "",
        "| " + " | ".join(head) + " |", "| " + " | ".join(["---"] * len(head)) + " |", *map(line, result["rows"])]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=ROOT / "build/bin", type=pathlib.Path)
    parser.add_argument("--device", required=True, choices=SIZES)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--settings", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="settings at a time; on a GPU one after the other runs")
    arguments = parser.parse_args()
    bin_folder, sizes = arguments.bin.resolve(), SIZES[arguments.device]

    def one(number):
        draw = random.Random(f"{arguments.seed} {number}")
        setting = Setting(number, bin_folder, folder / str(number), random_model(draw, sizes),
                          random_flags(draw, arguments.device, sizes))
        row = examine(setting, draw)
        for problem in row["problems"]:
            print(f"setting {number}: {problem}\n  {' '.join(setting.words(*row['budget_bytes'].values()))}", flush=True)
        return row

    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as workers:
        folder = pathlib.Path(name)
        rows = list(workers.map(one, range(arguments.settings)))
    version = subprocess.run([str(bin_folder / "oomb-train"), "--version"], capture_output=True, text=True).stdout
    command = f"bench/memory_limits.py --device {arguments.device} --settings {arguments.settings} --seed {arguments.seed}"
    result = {"oomb": " ".join(version.split()), "command": command, "device": arguments.device, "rows": rows}
    arguments.out.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    arguments.out.with_suffix(".md").write_text(page(result))
    print(summary(result))
    sys.exit(FAILED if any(row["problems"] for row in rows) else FITS)


if __name__ == "__main__":
    main()
