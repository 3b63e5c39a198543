"""Recordings made up from traces, so that what the analysis must find is known."""

import importlib.util
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("seeds", ROOT / "tests/fuzz/seeds.py")
seeds = importlib.util.module_from_spec(spec)  # writes the format from its document, in another language
spec.loader.exec_module(seeds)

STRING, DEVICE, KERNEL, COPY, MARK = 0, 1, 2, 3, 9  # tags of docs/profile-format.md
BEGIN = 2_000_000_000  # a recording's clock is not its trace's


def zigzag(value):
    value &= (1 << 64) - 1
    return (value << 1 ^ -(value >> 63)) & (1 << 64) - 1


class Block:
    def __init__(self):
        self.payload, self.records, self._last = b"", 0, {}

    def add(self, tag, *values, text=None):
        last = self._last.get(tag, [0] * len(values))
        self._last[tag] = values
        self.payload += bytes([tag]) + b"".join(seeds.varint(zigzag(new - old)) for new, old in zip(values, last))
        if text is not None:
            self.payload += seeds.varint(len(text)) + text.encode()
        self.records += 1


def read_trace(path):
    """Header and steps, each a list of [id, engine, begin, duration, bytes, pages]."""
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
    steps = []
    for line in lines[1:]:
        if isinstance(line, list):
            steps[-1].append(line)
        else:
            steps.append([])
    return lines[0], steps


def write_trace(path, header, steps):
    lines = [header]
    for number, step in enumerate(steps, 1):
        lines += [{"step": number}, *step]
    Path(path).write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def stretched(step, factor, begin=0):
    """The same step on a slower machine; an operation ends where the next begins, if it did."""
    def at(moment):
        return begin + round(moment * factor)
    return [[name, engine, at(first), at(first + length) - at(first), size, pages] for name, engine, first, length, size, pages in step]


def write_recording(path, steps, device="NVIDIA H200"):
    """What CUPTI would have recorded of the steps of a trace: a kernel or a copy per operation, called in the order of their
    begins."""
    block, call, kinds = Block(), 0, seeds.kinds()
    for number, text in enumerate(["kernel", device], 1):
        block.add(STRING, number, text=text)
    block.add(DEVICE, 0, 2, 1 << 37, 132)
    for step in steps:
        for name, engine, begin, length, size, _ in sorted(step, key=lambda operation: (operation[2], operation[0])):
            call += 1
            first, last = BEGIN + begin, BEGIN + begin + length
            block.add(MARK, call, int(name, 16))
            if kinds[int(name, 16) >> 19 & 63] == "release":
                continue
            if engine == 0:
                block.add(KERNEL, first, last, 0, 1, 7, call, 1, *[1] * 9, 0)
            else:
                block.add(COPY, first, last, 0, 1, 7 + engine, call, engine, 2, 3, size, 1, 0)
    write_block(path, block)


def write_block(path, block):
    header = {"program": "a test", "command": "oomb-train", "process": 1, "begin_ns": 1, "cupti_version": 130001,
              "driver_version": 13000, "operation_kinds": seeds.kinds()}
    Path(path).write_bytes(b"OOMBPROF" + seeds.struct.pack("<II", 1, 0) + seeds.block(1, json.dumps(header).encode())
                           + seeds.block(2, block.payload, block.records) + seeds.block(3, seeds.varint(block.records)))
