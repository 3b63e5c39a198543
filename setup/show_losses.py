"""Prints the loss of each step of the demo; fails unless the last pass over the data is better than the first.

    show_losses.py METRICS.jsonl STEPS_PER_PASS
"""

import json
import sys
from pathlib import Path


def main(path, steps_per_pass):
    steps = [json.loads(line) for line in Path(path).read_text().splitlines()]
    highest = max(step["loss"] for step in steps)
    print("\n  step    loss")
    for step in steps:
        print(f"  {step['step']:4d}  {step['loss']:6.4f}  {'#' * round(50 * step['loss'] / highest)}")
    first, last = (sum(s["loss"] for s in part) / steps_per_pass for part in (steps[:steps_per_pass], steps[-steps_per_pass:]))
    print(f"Mean loss of the first pass {first:.4f}, of the last {last:.4f}.")
    return 0 if last < first else "The loss did not fall: this is a fault."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
