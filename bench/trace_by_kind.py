#!/usr/bin/env python3
"""Where a step's time went: seconds per kind of operation and engine, from a trace (docs/trace-format.md).

    python bench/trace_by_kind.py TRACE [--step N] [--json FILE]

Prints one line per kind: engine, operations, seconds, share of the step, and how long the compute engine was idle.
"""

import argparse
import collections
import json
import sys

KIND_BITS, PART_BITS = 6, 19


def read_step(path, wanted):
    """Header and the records [(kind, engine, begin, duration, bytes)] of one step, the last one if `wanted` is None."""
    steps, records, step = {}, [], None
    with open(path, encoding="utf-8") as file:
        header = json.loads(file.readline())
        if header.get("format") != "oomb-trace":
            sys.exit(f"{path}: not a trace: its first line has format {header.get('format')!r}, not 'oomb-trace'")
        for line in file:
            if not line.endswith("\n"):
                break
            record = json.loads(line)
            if isinstance(record, dict):
                if "step" in record:
                    step, records = record["step"], []
                    steps[step] = records
                continue
            kind = (int(record[0], 16) >> PART_BITS) & ((1 << KIND_BITS) - 1)
            records.append((header["kinds"][kind], header["engines"][record[1]], record[2], record[3], record[4]))
    if not steps:
        sys.exit(f"{path}: holds no step")
    chosen = wanted if wanted is not None else max(steps)
    if chosen not in steps:
        sys.exit(f"{path}: has no step {chosen}; it holds {min(steps)} to {max(steps)}")
    return header, steps[chosen], chosen


def summary(records):
    seconds, counts, moved = collections.Counter(), collections.Counter(), collections.Counter()
    for kind, engine, _, duration, size in records:
        seconds[engine, kind] += duration * 1e-9
        counts[engine, kind] += 1
        moved[engine, kind] += size
    compute = [(begin, begin + duration) for _, engine, begin, duration, _ in records if engine == "compute"]
    whole = (max(end for _, end in compute) - min(begin for begin, _ in compute)) * 1e-9
    busy = sum(end - begin for begin, end in compute) * 1e-9
    rows = [
        {"engine": engine, "kind": kind, "operations": counts[engine, kind], "seconds": value,
         "share": value / whole, "bytes": moved[engine, kind]}
        for (engine, kind), value in seconds.most_common()
    ]
    return {"step_seconds": whole, "compute_idle_seconds": whole - busy, "kinds": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("--step", type=int)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    header, records, step = read_step(arguments.trace, arguments.step)
    result = {"device": header["device"], "step": step, **summary(records)}
    print(f"step {step} on {header['device']}: {result['step_seconds']:.4f} s, compute idle "
          f"{result['compute_idle_seconds']:.4f} s")
    for row in result["kinds"]:
        rate = f"  {row['bytes'] / row['seconds'] * 1e-9:6.1f} GB/s" if row["bytes"] else ""
        print(f"  {row['engine']:16} {row['kind']:32} {row['operations']:7} {row['seconds']:9.4f} s "
              f"{100 * row['share']:6.2f} %{rate}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
