#!/usr/bin/env python3
"""Writes inputs that every fuzz target accepts, for it to begin with: seeds.py OUT; one folder per target."""

import json
import shutil
import struct
import sys
import zlib
from pathlib import Path

import numpy
from safetensors.numpy import save_file

ROOT = Path(__file__).resolve().parents[2]
# Values in the order of run_flags_fuzz.cpp.
FLAGS = [["1000", "256", "128", "512", "256", "dense", "host", "auto", "all", "auto", "ring", "auto", "1GiB", "1GiB", "cuda", "bf16",
          "", "bf16", "remainder"],
         ["4K", "256", "128", "512", "256", "topk", "host", "none", "all", "0", "ring", "auto", "", "", "cpu", "fp32", "2", "", ""],
         ["4K", "256", "128", "512", "256", "local", "host", "none", "all", "0", "ring", "auto", "", "", "cpu", "fp32", "", "", "", "300", "128"],
         ["4K", "1K", "64", "1K", "1K", "dense", "none", "xo", "3", "0", "auto", "host", "", "", "cpu", "fp64", "", "", ""]]
ENGINES = ["compute", "host_to_device", "device_to_host", "host", "file"]


# What is read of the plan of a run with lists: pages of 4 tokens, two to a chunk, lists of 3.
PLAN = {"model": {"layers": 2}, "run": {"context_tokens": 48, "chunk_tokens": 8, "page_tokens": 4, "attention": "topk", "top_k": 3}}


def kinds():
    """From the list in runtime/schedule/operation.hpp."""
    text = (ROOT / "runtime/schedule/operation.hpp").read_text()
    block = text[text.index("#define OOMB_OPERATION_KINDS"):text.index("enum class Kind")]
    return [part.split('"')[1] for part in block.split("X(k")[1:]]


def write_trace(path):
    header = {"format": "oomb-trace", "version": 2, "program": "seed", "device": "cpu", "clock": "steady",
              "engines": ENGINES, "kinds": kinds(), "plan": PLAN}
    lists = '{"sequence":0,"layer":1,"query_page":8,"lists":["0 2-3","1 5 7"]}'
    path.write_text("\n".join([json.dumps(header), '{"step":1}', lists, '["0000000000300000",1,1523000,81200,4096,0]', ""]))


def block(kind, payload, records=0):
    head = struct.pack("<III", kind, len(payload), records)
    return head + struct.pack("<I", zlib.crc32(head + payload)) + payload


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def write_profile(path, begin_ns=1, version=2):
    """A record of every kind: their fields in the order of profiler/file/records.hpp, each from zero (docs/profile-format.md)."""
    fields = [[1], [0, 1, 4096, 2], [1000, 2000, 0, 1, 7, 5, 1] + [1] * 9 + [0], [1500, 2500, 0, 1, 8, 6, 1, 2, 3, 4096, 1, 0],
              [100, 200, 0, 1, 7, 4, 64, 0], [50, 1, 3, 1 << 40, 4096, 0, 1, 0, 3], [900, 1, 1, 7, 1, 1],
              [2000, 2400, 3, 1, 7, 0, 9], [10, 20, 3, 7], [5, 0x300000], [1, 2], [1],
              [990, 1010, 1, 7, 5, 1, 0], [1000, 2000, 0, 1, 4096]]
    if version == 1:
        fields = fields[:12]
    payload = b""
    for tag, values in enumerate(fields):
        payload += bytes([tag]) + b"".join(varint(2 * value) for value in values) + (varint(4) + b"name" if tag == 0 else b"")
    header = {"program": "seed", "command": "x", "process": 1, "begin_ns": begin_ns, "cupti_version": 130001, "driver_version": 13000,
              "operation_kinds": kinds()}
    path.write_bytes(b"OOMBPROF" + struct.pack("<II", version, 0) + block(1, json.dumps(header).encode())
                     + block(2, payload, len(fields)) + block(3, varint(len(fields))))


def main(out):
    folders = {name: Path(out) / name for name in ("model_config", "hardware_profile", "run_flags", "trace", "profile", "replay", "page_trace", "locality", "npy",
                                                   "sidecar", "safetensors", "weight_index", "checkpoint")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    for file in (ROOT / "models").glob("*.json"):
        shutil.copy(file, folders["model_config"])
    for file in (ROOT / "hardware").glob("*.json"):
        shutil.copy(file, folders["hardware_profile"])
    for number, values in enumerate(FLAGS):
        (folders["run_flags"] / str(number)).write_text("\n".join(values) + "\n")
    write_trace(folders["trace"] / "one.jsonl")
    shutil.copy(ROOT / "tests/golden/trace-tiny.jsonl", folders["replay"])
    write_trace(folders["page_trace"] / "one.jsonl")
    (folders["locality"] / "one.json").write_text(json.dumps(
        {"format": "oomb-locality", "version": 1, "sink": 0.5, "recency": 1.8, "zipf": 1.4, "source": "seed"}))
    for version in (1, 2):
        write_profile(folders["profile"] / f"version-{version}.profile", version=version)
    for dtype in ("uint16", "uint32"):
        numpy.save(folders["npy"] / f"{dtype}.npy", numpy.arange(10, dtype=dtype))
    (folders["sidecar"] / "one.json").write_text(json.dumps(
        {"format_version": 1, "tokens": 100, "dtype": "uint16", "documents": [0, 40, 100], "tokenizer_sha256": "0" * 64,
         "eos_token_id": 2}))
    (folders["checkpoint"] / "one.json").write_text(json.dumps(
        {"format": "oomb-checkpoint", "version": 1, "step": 2, "sequences": 4, "last_loss": 2.5,
         "data": {"file": "tokens.npy", "fingerprint": "0123456789abcdef"},
         "cursor": {"epoch": 1, "offset_tokens": 40, "source_tokens": 100}, "settings": {"--steps": "3"},
         "checksums": {"a": "0123456789abcdef", "m.a": "0123456789abcdef", "v.a": "0123456789abcdef"}}))
    (folders["weight_index"] / "one.json").write_text(json.dumps(
        {"metadata": {"total_size": 32}, "weight_map": {"a": "shard-1.safetensors", "b": "shard-2.safetensors"}}))
    save_file({"a": numpy.ones((2, 3), numpy.float32), "b": numpy.ones(4, numpy.float16)}, folders["safetensors"] / "two.safetensors")


if __name__ == "__main__":
    main(*sys.argv[1:])
