"""The page of bench/reproduce_offload.py, from what it measured. Parts that were not measured are left open."""

import statistics

DIRECTIONS = {"host_to_device": "to the device", "device_to_host": "to the host"}
# What the numbers are held to.
MOST = {"memory": 0.01, "replay": 0.03, "unseen": 0.05, "hidden": 0.02, "overhead": 0.01}


def percent(value, sign=True):
    return "" if value is None else f"{100 * value:{'+' if sign else ''}.2f} %"


def judged(error, most):
    """The number, and whether it is within what it is held to."""
    return "" if error is None else f"{percent(error)}{'' if abs(error) <= most else ' (missed)'}"


def judged_cost(cost):
    return f"{percent(cost)}{'' if cost <= MOST['overhead'] else ' (missed)'}"


def gib(value):
    return "" if value is None else f"{value / 2**30:.2f} GiB"


def seconds(value):
    return "" if value is None else f"{value:.3f} s"


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *("| " + " | ".join(row) + " |" for row in rows), ""]


def median(runs, key):
    return statistics.median(run[key] for run in runs) if runs else None


def relative(found, expected):
    return found / expected - 1 if found is not None and expected else None


def of_context(row):
    plan, pairs = row.get("plan", {}), row.get("pairs", {})
    trace, profile = row.get("trace", {}), row.get("profile", {})
    host = pairs.get("host") or [part["run"] for part in (trace, profile) if part][:1]
    measured, in_hbm = median(host, "median_seconds"), median(pairs.get("hbm", []), "median_seconds")
    return {"plan": plan, "trace": trace, "profile": profile, "measured": measured, "traced": bool(trace) and not pairs.get("host"),
            "peak": max((run["peak_bytes"] for run in host), default=None), "in_hbm": in_hbm,
            "overhead": pairs.get("overhead", relative(measured, in_hbm)), "runs": len(host)}


def time_rows(contexts):
    for name, row in contexts.items():
        c = of_context(row)
        yield [name, gib(c["plan"].get("peak_bytes")), gib(c["peak"]), judged(relative(c["plan"].get("peak_bytes"), c["peak"]), MOST["memory"]),
               seconds(c["plan"].get("seconds")), seconds(c["measured"]) + (" (traced)" if c["traced"] else ""), judged(relative(c["plan"].get("seconds"), c["measured"]), MOST["unseen"]),
               judged(c["trace"].get("replay_error"), MOST["replay"]),
               f"{seconds(c['in_hbm'])}{', ' + judged_cost(c['overhead']) if c['overhead'] is not None else ''}"]


def hidden_rows(contexts):
    for name, row in contexts.items():
        c = of_context(row)
        for direction, title in DIRECTIONS.items():
            shares = [source.get("hidden", {}).get(direction) for source in (c["plan"], c["trace"], c["profile"])]
            planned, counted = c["plan"].get("bytes", {}).get(direction), c["profile"].get("bytes", {}).get(direction)
            points = None if shares[0] is None or shares[2] is None else shares[0] - shares[2]
            yield [f"{name}, {title}", gib(planned), gib(counted), percent(relative(counted, planned)),
                   *(percent(share, sign=False) for share in shares),
                   "" if points is None else f"{100 * points:+.2f}{'' if abs(points) <= MOST['hidden'] else ' (missed)'}"]


def slowed_lines(contexts):
    """Of steps that being recorded slowed down."""
    lines = []
    for name, row in contexts.items():
        c = of_context(row)
        slower = relative(c["profile"].get("run", {}).get("median_seconds"), c["measured"])
        if slower is not None and slower > MOST["unseen"]:
            lines.append(f"{name}: **being recorded made the step {percent(slower)} longer** ({seconds(c['profile']['run']['median_seconds'])}; the GPU waited "
                         f"{c['profile']['idle_ns'] / 1e9:.1f} s for the host). Its shares by CUPTI are those of the slowed step.")
    return [*lines, ""] if lines else []


def hog_lines(hog):
    left = ", ".join(f"{title} {100 * hog['bandwidth_left'][direction]:.0f} %" for direction, title in DIRECTIONS.items())
    rates = ", ".join(f"{title} {hog['hog'][direction + '_bytes_per_second'] / 1e9:.1f} GB/s" for direction, title in DIRECTIONS.items())
    by_bandwidth = hog.get("told_by_bandwidth") or {"seconds": hog["told_seconds"], "error": hog["told_error"], "hidden_share": hog["told_hidden_share"]}
    told = {"told, copy engines used in turns": hog.get("told"), "told, at the bandwidth that was left": by_bandwidth}
    slower = hog["beside"]["median_seconds"] / hog["alone"]["median_seconds"] - 1
    turns = hog.get("turns_ms")
    return ["## Less bandwidth", "",
            f"The same step on {hog['layers']} layers, in chunks of 2K, which keep the bus nearly full, and with `--deterministic`. Then again while `bench/copy_hog.cpp`",
            f"copies in both directions: it takes {rates}, and leaves of the step's own bandwidth {left}. The simulator is given the trace of the run without",
            "it, and how the two share a copy engine: either in turns"
            + (f" ({turns[0]:.2f} ms the step's, {turns[1]:.2f} ms the hog's: `bench/reproduce_offload.py` says from where)" if turns else " (not measured yet)")
            + " or as one of less bandwidth.", "",
            f"- Command: `{hog['command']}`.", "",
            *table(["", "step", "copies hidden", "factor off by", "gradients (SHA-256)", "loss"],
                   [[name, seconds(run["median_seconds"]), percent(run["hidden_share"], sign=False), "", f"`{run['gradients_sha256'][:16]}`", repr(run["loss"])]
                    for name, run in (("alone", hog["alone"]), ("beside copy_hog", hog["beside"]))]
                   + [[name, seconds(one["seconds"]), percent(one["hidden_share"], sign=False), judged(one["error"], MOST["replay"]), "", ""]
                      for name, one in told.items() if one]),
            f"The step takes {percent(slower)} longer. Gradients, norm and loss of both runs are {'the same, bit for bit' if hog['same_gradients'] else 'NOT the same'}.", "",
            *sizes_lines(hog.get("copies") or hog["hogged"]["copies"])]


def sizes_lines(copies):
    rows = []
    for direction, title in DIRECTIONS.items():
        alone = {row["bytes"]: row["quartiles_us"] for row in copies["alone"][direction]}
        rows += [[title, f"{row['bytes'] / 2**20:.2f} MiB", str(row["count"]), f"{alone[row['bytes']][1]:.0f} us" if row["bytes"] in alone else "",
                  " / ".join(f"{q:.0f}" for q in row["quartiles_us"]) + " us"] for row in copies["beside"][direction]]
    return ["What copies take, by size: the median alone, and quartiles beside copy_hog.", "", *table(["", "bytes", "copies", "alone", "beside"], rows)]


def page(result):
    contexts = dict(sorted(result["contexts"].items(), key=lambda item: int(item[0].rstrip("K"))))
    sittings = result["sittings"]
    # A line of nvidia-smi per GPU: name, driver, and what changes.
    machine = sorted({gpu.rsplit(",", 3)[0].strip() for sitting in sittings for gpu in (sitting["gpu"] or "").splitlines()})
    programs = sorted({sitting["oomb"] for sitting in sittings})
    lines = ["# Offload on one H200: predicted, and as three clocks saw it", "",
             "The Qwen2.5-7B shape, dense attention, every K/V page in host memory: random weights and tokens, bf16, gradients without AdamW, chunks of 8K,",
             "windows of 32K, nothing kept. *Predicted* is what `oomb-plan` says before anything runs; *events* are the executor's CUDA events; *CUPTI* is what",
             "the GPU's own timestamps say, recorded by `--profile`.", "",
             "- Command: `make reproduce-offload` (bench/reproduce_offload.py); the runs are in [offload-h200.json](offload-h200.json).",
             f"- Machine: {'; '.join(machine) or 'not said'}. Programs: {'; '.join(programs)}.",
             f"- Held to: memory {percent(MOST['memory'], False)}, time {percent(MOST['replay'], False)} replayed and {percent(MOST['unseen'], False)} unseen, hidden share "
             f"{100 * MOST['hidden']:.0f} points, overhead {percent(MOST['overhead'], False)}. What is not within that says so.", "",
             "## Memory and time", "",
             "Replay: the recorded trace through the simulator. In GPU memory: the same step with all pages there, runs taking turns; the share is what offload costs,",
             "the median over pairs; of a step that takes minutes one run, beside the one that was traced.", "",
             *table(["context", "peak predicted", "measured", "error", "step predicted", "measured", "error", "replay error", "in GPU memory, overhead of offload"],
                    time_rows(contexts)),
             "## Copies", "",
             "Bytes and the share hidden behind compute, of each direction. The last column: predicted against CUPTI, in points. Events and CUPTI are of two runs:",
             "an event around each operation adds microseconds to it, in which the GPU computes nothing and a copy counts as exposed.", "",
             *table(["", "bytes predicted", "CUPTI", "difference", "hidden predicted", "events", "CUPTI", "points"], hidden_rows(contexts)),
             *slowed_lines(contexts),
             "## Commands", "", *(f"- {name}: `{row['command']}`" for name, row in contexts.items()), ""]
    if "hog" in result:
        lines += hog_lines(result["hog"])
    return "\n".join(lines).rstrip() + "\n"
