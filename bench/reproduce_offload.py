#!/usr/bin/env python3
"""A Qwen2.5-7B step with every K/V page in host memory: what was predicted, what the executor's events say, what the GPU says.

    make reproduce-offload                                            # all of it, about an hour on an H200
    python bench/reproduce_offload.py --contexts 32K,64K              # some contexts: for machines lent by the minute
    python bench/reproduce_offload.py --contexts 256K --parts profile # one part of one
    python bench/reproduce_offload.py --parts hog                     # bandwidth taken away
    python bench/reproduce_offload.py --page                          # the page alone, from the JSON

Random weights and tokens, dense attention, gradients without AdamW. Parts of a context:
  plan    oomb-plan: peak memory, time, bytes and hidden share of each direction; needs no GPU
  pairs   runs with all pages on the host and with all pages in GPU memory, taking turns: time, peak memory, offload's overhead
  trace   a run with --trace: hidden share by the executor's events, and the replay of the trace
  profile a run with --profile: bytes and hidden share by CUPTI. Not traced, for an event around each operation adds microseconds to
          each, in which the GPU computes nothing and a copy counts as exposed
"hog" is the same step on less bandwidth: bench/copy_hog.cpp copies beside it, and the copy engines take turns between the two programs. The trace
of a run without it, replayed with these turns, says how long the step takes; --deterministic, so that gradients must keep their bits. A turn of the
hog is one copy of its own; a turn of the step is read off what its copies of each size took (own_turn_ms). Beside it what the mean bandwidth
that was left would have made of the step.

Everything goes to docs/measurements/offload-h200.json as soon as it is there, under its context and part (what is there already
is replaced), and the page beside it is made from that file.
"""

import argparse
import hashlib
import json
import re
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import offload_page
from measure_steps import ROOT, gpu_state

STEP = "--synthetic --device cuda --no-optimizer --chunk 8K --window 32K --keep none"
ON_HOST, IN_HBM = "--offload host --hbm-pages ring", ""
# context: steps of a run (the first of several warms up), pairs of runs. Without pairs: one run in GPU memory, beside the profiled one.
CONTEXTS = {"32K": (3, 5), "64K": (2, 3), "128K": (1, 2), "256K": (1, 0)}
PARTS = ("plan", "pairs", "trace", "profile")
# Chunks of 2K read the history four times as often: the bus is nearly full, and less bandwidth is felt.
HOG_STEP = "--synthetic --device cuda --no-optimizer --chunk 2K --window 16K --keep none --context 64K --deterministic"
HOG_LAYERS, HOG_STEPS = 4, 3
HOG_PIECE = 64 << 20  # bytes of a copy of copy_hog
DIRECTIONS = ("host_to_device", "device_to_host")
SHARE = re.compile(r"^  (host to device|device to host) .* hidden\s+([0-9.]+) %", re.MULTILINE)
RATE = re.compile(r"(to the device|to the host) ([0-9.]+) ([KMGT]?B)/s alone")


class Programs:
    def __init__(self, folder):
        self._folder = Path(folder).resolve()

    def run(self, name, *words, allowed=(0,)):
        done = subprocess.run([str(self._folder / name), *map(str, words)], capture_output=True, text=True)
        if done.returncode not in allowed:
            sys.exit(f"{name} {' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done

    def path(self, name):
        return self._folder / name


def shares_of(text):
    """Hidden share of each direction, as oomb-plan timeline prints it."""
    return {name.replace(" ", "_"): float(share) / 100 for name, share in SHARE.findall(text)}


def planned(programs, flags, hardware, folder):
    out = folder / "plan.json"
    flags = [word for word in flags if word != "--synthetic"]
    programs.run("oomb-plan", *flags, "--exact", *hardware, "--json", out)
    plan = json.loads(out.read_text())
    found = {"peak_bytes": plan["peak_bytes"]["hbm"]}
    if plan["time"] is not None:
        copies = plan["time"]["copies"]
        found |= {"seconds": plan["time"]["seconds"]["total"], "hardware": plan["time"]["hardware"],
                  "bytes": {direction: copies[direction]["bytes"] for direction in DIRECTIONS},
                  "hidden": shares_of(programs.run("oomb-plan", "timeline", *flags, *hardware).stdout)}
    return found


def trained(programs, flags, folder):
    """The metrics of a run's steps that count, and their median time."""
    metrics = folder / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    programs.run("oomb-train", *flags, "--metrics", metrics)
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    counted = lines[1:] or lines
    last = counted[-1]
    return {"seconds": [line["seconds"]["total"] for line in counted],
            "median_seconds": statistics.median(line["seconds"]["total"] for line in counted),
            "peak_bytes": last["peak_bytes"]["driver"] or last["peak_bytes"]["hbm"],
            "bytes": {direction: last["copies"][direction]["bytes"] for direction in DIRECTIONS},
            "busy_seconds": {direction: last["copies"][direction]["busy_seconds"] for direction in DIRECTIONS},
            "hidden_share": last["copies"]["hidden_share"], "loss": last["loss"], "grad_norm": last["grad_norm"],
            "clock_mhz": last["device"]["clock_mhz"], "watts": last["device"]["watts"]}


def pairs_of(programs, flags, pairs, folder):
    """Runs on the host and in GPU memory, the one first and then the other; the latter only where it fits."""
    hbm_flags = [word for word in flags if word not in ON_HOST.split()]
    fits = programs.run("oomb-train", *hbm_flags, "--dry-run", allowed=(0, 3)).returncode == 0
    found = {"host": [], "hbm": []}
    if pairs == 0 and fits:
        found["hbm"].append(trained(programs, hbm_flags, folder))
        print(f"  hbm: {found['hbm'][-1]['median_seconds']:.3f} s", flush=True)
    for pair in range(pairs):
        runs = [("host", flags), ("hbm", hbm_flags)] if fits else [("host", flags)]
        for name, words in runs[:: 1 if pair % 2 == 0 else -1]:
            found[name].append(trained(programs, words, folder))
            print(f"  {name}: {found[name][-1]['median_seconds']:.3f} s", flush=True)
    if pairs > 0 and fits:
        found["overhead"] = statistics.median(
            host["median_seconds"] / hbm["median_seconds"] - 1 for host, hbm in zip(found["host"], found["hbm"]))
    return found


def traced(programs, flags, steps, folder):
    """One run, of whose last step the trace is kept until all is read from it."""
    trace, replay = folder / "step.trace", folder / "replay.json"
    trace.unlink(missing_ok=True)
    run = trained(programs, [*flags, "--trace", trace], folder)
    timeline = programs.run("oomb-plan", "timeline", "--from", trace, "--step", steps).stdout
    programs.run("oomb-plan", "replay", "--trace", trace, "--step", steps, "--json", replay)
    return {"run": run, "replay_error": json.loads(replay.read_text())["error"], "hidden": shares_of(timeline)}


def profiled(programs, flags, steps, folder):
    """One run, of whose last step CUPTI's records are kept until all is read from them."""
    profile = folder / "step.profile"
    profile.unlink(missing_ok=True)
    run = trained(programs, [*flags, "--profile", profile, "--profile-steps", f"{steps}:{steps}"], folder)
    report = json.loads(programs.run("oomb-profile", "report", profile, "--json").stdout)
    device = report["devices"][0]
    copies = {name.replace(" ", "_"): of_direction for name, of_direction in device["copies"].items()}
    return {"run": run, "profile_bytes": profile.stat().st_size, "notes": report["notes"],
            "bytes": {direction: copies[direction]["bytes"] for direction in DIRECTIONS if direction in copies},
            "hidden": {direction: copies[direction]["hidden_ns"] / copies[direction]["busy_ns"]
                       for direction in DIRECTIONS if copies.get(direction, {}).get("busy_ns")},
            **{key: device[key] for key in ("span_ns", "compute_ns", "exposed_ns", "idle_ns", "kernels", "gaps")}}


def measure_context(programs, arguments, context, parts, row, keep):
    steps, pairs = CONTEXTS[context]
    flags = [*(arguments.step or STEP).split(), *ON_HOST.split(), "--model", arguments.model, "--context", arguments.tokens or context]
    hardware = ["--hardware", arguments.hardware] if arguments.hardware else []
    row["command"] = " ".join(["oomb-train", *flags, "--steps", str(steps)]).replace(f"{ROOT}/", "")
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as name:
        folder = Path(name)
        for part in parts:
            print(f"{context}, {part}", flush=True)
            if part == "plan":
                row[part] = planned(programs, flags, hardware, folder)
            elif part == "pairs":
                row[part] = pairs_of(programs, [*flags, "--steps", str(steps)], pairs if arguments.pairs is None else arguments.pairs, folder)
            else:
                row[part] = {"trace": traced, "profile": profiled}[part](programs, [*flags, "--steps", str(steps)], steps, folder)
            keep()


class Hog:
    """copy_hog, copying from the begin of the block to its end."""

    def __init__(self, programs):
        self._program = programs.path("copy_hog")
        self.rates = None

    def __enter__(self):
        self._process = subprocess.Popen([str(self._program)], stdout=subprocess.PIPE, text=True)
        if self._process.stdout.readline().strip() != "ready":
            sys.exit(f"copy_hog: did not begin, exit {self._process.wait()}")
        return self

    def __exit__(self, *_):
        self._process.send_signal(signal.SIGTERM)
        out, _ = self._process.communicate(timeout=60)
        self.rates = json.loads(out.splitlines()[-1])


def gradients_of(programs, flags, folder):
    """SHA-256 of the first step's gradients."""
    file = folder / "gradients.safetensors"
    file.unlink(missing_ok=True)
    run = trained(programs, [*flags, "--dump-gradients", file], folder)
    digest = hashlib.sha256()
    with file.open("rb") as data:
        while block := data.read(1 << 24):
            digest.update(block)
    file.unlink()
    return {**run, "gradients_sha256": digest.hexdigest()}


def effective(run):
    """Bytes per second of each direction while its engine worked."""
    return {direction: run["bytes"][direction] / run["busy_seconds"][direction] for direction in DIRECTIONS}


def replayed(programs, trace, folder, rates=None, turns=()):
    """The replay's JSON, and its rate of each direction alone, in GB/s."""
    out, words = folder / "replay.json", ["--copy-turns", ",".join(f"{turn:.4g}" for turn in turns)] if turns else []
    for direction, rate in (rates or {}).items():
        words += [f"--{direction.replace('_', '-')}", f"{rate:.6g}"]
    text = programs.run("oomb-plan", "replay", "--trace", trace, "--json", out, *words).stdout
    scale = {"KB": 1e-6, "MB": 1e-3, "GB": 1.0, "TB": 1e3}
    alone = {("host_to_device" if side == "to the device" else "device_to_host"): float(rate) * scale[unit]
             for side, rate, unit in RATE.findall(text)}
    return json.loads(out.read_text()), alone


def copies_of(trace):
    """Of the last step in a trace, by direction and size, where there are eight or more: how often, and quartiles in microseconds."""
    found = {direction: {} for direction in DIRECTIONS}
    with trace.open() as lines:
        engines = json.loads(next(lines))["engines"]
        for line in map(json.loads, lines):
            if isinstance(line, list) and line[4] > 0 and engines[line[1]] in found:
                found[engines[line[1]]].setdefault(line[4], []).append(line[3] / 1000)
            elif isinstance(line, dict) and "step" in line:
                found = {direction: {} for direction in DIRECTIONS}
    return {direction: [{"bytes": size, "count": len(times), "quartiles_us": [round(q, 1) for q in statistics.quantiles(times, n=4)]}
                        for size, times in sorted(sizes.items()) if len(times) >= 8] for direction, sizes in found.items()}


def own_turn_ms(copies):
    """How long our turn on a copy engine lasts: longer than the largest copies of which a quarter went through unbroken, at most as long as the
    smallest that were nearly all broken. The middle of the two, mean over directions, in milliseconds."""
    middles = []
    for direction in DIRECTIONS:
        alone = {row["bytes"]: row["quartiles_us"][1] for row in copies["alone"][direction]}
        times = [(alone[row["bytes"]], row["quartiles_us"][0]) for row in copies["beside"][direction] if row["bytes"] in alone]
        broken = [taken > time + 0.5 * 1000 * hog_turn_ms(copies) for time, taken in times]
        first = broken.index(True) if True in broken else None
        if first in (None, 0):
            sys.exit(f"hog: {direction}: a copy of every size was {'whole' if first is None else 'broken'}; nothing says how long a turn is")
        middles.append((times[first - 1][0] + times[first][0]) / 2)
    return statistics.mean(middles) / 1000


def hog_turn_ms(copies):
    """One copy of copy_hog, at the rate of our largest copies when they were alone, in milliseconds."""
    rates = [max(row["bytes"] for row in copies["alone"][direction]) /
             max(copies["alone"][direction], key=lambda row: row["bytes"])["quartiles_us"][1] for direction in DIRECTIONS]
    return HOG_PIECE / statistics.mean(rates) / 1000


def measure_hog(programs, arguments):
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as name:
        folder = Path(name)
        model, trace, hogged_trace = folder / "config.json", folder / "alone.trace", folder / "hogged.trace"
        model.write_text(json.dumps({**json.loads(Path(arguments.model).read_text()), "num_hidden_layers": HOG_LAYERS}))
        flags = [*(arguments.hog_step or HOG_STEP).split(), *ON_HOST.split(), "--model", model, "--steps", HOG_STEPS]
        alone = gradients_of(programs, [*flags, "--trace", trace], folder)
        print(f"  alone: {alone['median_seconds']:.3f} s", flush=True)
        with Hog(programs) as hog:
            beside = gradients_of(programs, [*flags, "--trace", hogged_trace], folder)
        print(f"  beside copy_hog: {beside['median_seconds']:.3f} s", flush=True)
        unchanged, rates = replayed(programs, trace, folder)
        left = {direction: effective(beside)[direction] / effective(alone)[direction] for direction in DIRECTIONS}
        by_rate, _ = replayed(programs, trace, folder, {direction: rates[direction] * left[direction] for direction in DIRECTIONS})
        copies = {name: copies_of(path) for name, path in (("alone", trace), ("beside", hogged_trace))}
        turns = (own_turn_ms(copies), hog_turn_ms(copies))
        told, _ = replayed(programs, trace, folder, turns=turns)

    def said(by):
        seconds = by["changed"]["seconds"]["total"]
        slower = seconds / by["recorded"]["seconds"]["total"]
        return {"seconds": seconds, "error": slower / (beside["median_seconds"] / alone["median_seconds"]) - 1,
                "hidden_share": by["changed"]["copies"]["hidden_share"]}

    return {"command": " ".join(map(str, ["oomb-train", *flags])).replace(str(folder) + "/", ""), "layers": HOG_LAYERS, "alone": alone, "beside": beside,
            "hog": hog.rates, "bandwidth_left": left, "replay_error": unchanged["error"], "turns_ms": turns, "told": said(told),
            "told_by_bandwidth": said(by_rate), "copies": copies,
            "same_gradients": all(alone[key] == beside[key] for key in ("gradients_sha256", "loss", "grad_norm"))}


def read_result(path):
    return json.loads(path.read_text()) if path.exists() else {"sittings": [], "contexts": {}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=ROOT / "build/bin", type=Path, help="folder of the programs")
    parser.add_argument("--contexts", default=",".join(CONTEXTS))
    parser.add_argument("--parts", default=",".join((*PARTS, "hog")))
    parser.add_argument("--pairs", type=int, help="pairs of runs instead of the context's")
    parser.add_argument("--model", default=str(ROOT / "models/qwen2.5-7b.json"))
    parser.add_argument("--hardware", help="machine or profile that is predicted for; oomb-plan's if not given")
    parser.add_argument("--out", default=ROOT / "docs/measurements/offload-h200.json", type=Path)
    parser.add_argument("--scratch", type=Path, help="folder for traces, profiles and gradients (8 GB); /tmp if not given")
    parser.add_argument("--page", action="store_true", help="make the page from the JSON and stop")
    for name, what in (("--step", "flags of a step"), ("--hog-step", "the same of the hog's"), ("--tokens", "context of all rows")):
        parser.add_argument(name, help=f"{what}, to try this script on small shapes")
    arguments = parser.parse_args()
    contexts = [name for name in arguments.contexts.split(",") if name]
    parts = [name for name in arguments.parts.split(",") if name]
    for flag, found, known in (("--contexts", contexts, CONTEXTS), ("--parts", parts, (*PARTS, "hog"))):
        if unknown := [name for name in found if name not in known]:
            sys.exit(f"{flag}: {', '.join(unknown)} unknown; there are {', '.join(known)}")
    programs, result = Programs(arguments.bin), read_result(arguments.out)

    def keep():
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
        arguments.out.with_suffix(".md").write_text(offload_page.page(result))

    if not arguments.page:
        version = " ".join(programs.run("oomb-train", "--version").stdout.split())
        result["sittings"].append({"oomb": version, "contexts": contexts, "parts": parts, "gpu": gpu_state()})
        for context in contexts if set(parts) - {"hog"} else []:
            measure_context(programs, arguments, context, [part for part in PARTS if part in parts],
                            result["contexts"].setdefault(context, {}), keep)
        if "hog" in parts:
            print("hog", flush=True)
            result["hog"] = measure_hog(programs, arguments)
    keep()


if __name__ == "__main__":
    main()
