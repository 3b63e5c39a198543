"""Recordings of an unmodified PyTorch program beside those of torch.profiler and Nsight Systems. Needs a GPU.

CUPTI has one subscriber at a time, so every recording is a run of its own, and runs differ: by clocks, temperature and the
state of caches. The program therefore does what the GPU's memory bandwidth bounds, whose time repeats best; recorders take turns, and
their medians are held against one another.
"""

import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("OOMB_BIN") or ROOT / "build/bin")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

ROUNDS = 5
TOLERANCE = 0.005
# One GiB a tensor: each kernel takes about 0.5 ms on an H200 and caches hold nothing of it. Many more small kernels count,
# and take little of the time.
PROGRAM = """
import sys
import torch

def work():
    torch.cuda.nvtx.range_push("measured")
    for _ in range(200):
        torch.add(a, b, out=c)
        torch.mul(c, 0.5, out=a)
    for _ in range(500):
        small.add_(1.0)
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_pop()

a, b, c = (torch.ones(1 << 28, device="cuda") for _ in range(3))
small = torch.zeros(64, device="cuda")
for _ in range(100):  # clocks are up and kernels loaded
    torch.add(a, b, out=c)
    torch.mul(c, 0.5, out=a)
small.add_(1.0)
torch.cuda.synchronize()
if len(sys.argv) > 1:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        work()
    profiler.export_chrome_trace(sys.argv[1])
else:
    work()
"""


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    return file


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def by_oomb(program, folder, number):
    """Kernels and nanoseconds within the range."""
    file = folder / f"{number}.profile"
    run(BIN / "oomb-profile", "run", "--out", file, "--steps", "1", "--step-range", "measured", "--", sys.executable, program)
    kernels = json.loads(run(BIN / "oomb-profile", "report", file, "--json").stdout)["kernels"]
    return sum(kernel["count"] for kernel in kernels), sum(kernel["total_ns"] for kernel in kernels)


def by_kineto(program, folder, number):
    file = folder / f"{number}.json"
    run(sys.executable, program, file)
    kernels = [event for event in json.loads(file.read_text())["traceEvents"] if event.get("cat") == "kernel"]
    return len(kernels), sum(event["dur"] for event in kernels) * 1000


def by_nsys(program, folder, number):
    file = folder / f"{number}-nsys"
    # NVTX names of PyTorch are plain strings, which nsys hears only when told to.
    run("env", "NSYS_NVTX_PROFILER_REGISTER_ONLY=0", "nsys", "profile", "--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none",
        "--capture-range=nvtx", "--nvtx-capture=measured", "--capture-range-end=stop", "--export=sqlite", "--output", file,
        sys.executable, program)
    with sqlite3.connect(f"{file}.sqlite") as database:
        return database.execute("SELECT count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()


def check_agreement(program, folder, other):
    ours, theirs = [], []
    for number in range(ROUNDS):  # each goes first in turn
        for recorder, found in ((by_oomb, ours), (other, theirs))[:: 1 if number % 2 == 0 else -1]:
            found.append(recorder(program, folder, number))
    assert {count for count, _ in ours} == {count for count, _ in theirs} == {900}
    ours_ns, theirs_ns = (statistics.median(time for _, time in found) for found in (ours, theirs))
    assert abs(ours_ns / theirs_ns - 1) <= TOLERANCE, (ours, theirs)


def test_torch_profiler_finds_the_same(program, tmp_path):
    check_agreement(program, tmp_path, by_kineto)


@pytest.mark.skipif(shutil.which("nsys") is None, reason="Nsight Systems is not installed")
def test_nsight_systems_finds_the_same(program, tmp_path):
    check_agreement(program, tmp_path, by_nsys)


def test_another_profiler_in_the_program_is_told(program, tmp_path):
    """torch.profiler within a recorded program: whichever loses, the program does its work and the loser is named."""
    file = tmp_path / "x.profile"
    done = subprocess.run([BIN / "oomb-profile", "run", "--out", file, "--", sys.executable, program, tmp_path / "k.json"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "k.json").exists()
    report = json.loads(run(BIN / "oomb-profile", "report", file, "--json").stdout)
    assert sum(kernel["count"] for kernel in report["kernels"]) >= 900 or "another profiler" in done.stderr, done.stderr
