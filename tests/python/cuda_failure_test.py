"""What oomb-train --device cuda says and how it ends where it cannot go on: exit code, one clear line, no hanging."""

import re
from pathlib import Path

import pytest
import torch

from make_tiny_model import save_tiny_model
from support import TERMINATE

MIB = 2**20
GIB = 2**30
MODELS = Path(__file__).resolve().parents[2] / "models"
SYNTHETIC = {"synthetic": True, "device": "cuda", "dtype": None, "chunk": "4K", "page_tokens": 128, "out": None}
TRAVELLING = {"offload": "host", "hbm_pages": "ring"}

pytestmark = pytest.mark.slow
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture
def tiny(tmp_path):
    save_tiny_model(tmp_path / "model", "llama3")
    return tmp_path / "model"


@pytest.fixture
def leave_free():
    """Takes all GPU memory but so many bytes, until the end of the test."""
    held = []

    def leave(bytes_left):
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info()
        held.append(torch.empty(free - bytes_left, dtype=torch.uint8, device="cuda"))

    yield leave
    held.clear()
    torch.cuda.empty_cache()


def last_line(run):
    return run.output.strip().splitlines()[-1]


def test_no_visible_gpu(trainer, tiny, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    run = trainer(tiny, None, 512, **SYNTHETIC)
    assert run.returncode == 1, run.output
    wanted = r'CUDA_VISIBLE_DEVICES="" leaves no GPU' if torch.cuda.is_available() else "no NVIDIA driver found|no GPU"
    assert re.fullmatch(f"oomb-train: .*({wanted}).*", last_line(run)), run.output
    assert run.metrics == []


@needs_gpu
def test_gpu_memory_held_by_another_process(trainer, leave_free):
    leave_free(20 * GIB)
    run = trainer(MODELS / "qwen2.5-7b.json", None, "8K", **SYNTHETIC, no_optimizer=True, learning_rate=None)
    assert run.returncode == 3, run.output
    wanted = r"GPU memory: the run reserves [\d.]+ GiB \([\d,]+ bytes\), free are 1\d\.\d"
    assert re.search(wanted, last_line(run)), run.output


@needs_gpu
@pytest.mark.parametrize("mib_left", [64, 560, 620, 700])
def test_gpu_memory_too_small_for_context_and_libraries(trainer, tiny, leave_free, mib_left):
    """A context and the code of the libraries take some 600 MiB beside the arena: it fits, or says that it does not."""
    leave_free(mib_left * MIB)
    run = trainer(tiny, None, 512, **{**SYNTHETIC, "chunk": 128})
    assert run.returncode in (0, 3), run.output
    assert mib_left > 64 or run.returncode == 3
    print(f"\n{mib_left} MiB left: exit code {run.returncode}: {last_line(run)}")
    if run.returncode == 3:
        assert re.match("oomb-train: .*memory", last_line(run)), run.output


@needs_gpu
def test_host_memory_too_small(trainer):
    """The budget is a promise that the machine does not keep."""
    run = trainer(MODELS / "smollm2-135m.json", None, "64M", **SYNTHETIC, **TRAVELLING, host_memory="100TiB")
    assert run.returncode == 3, run.output
    assert re.search(r"host memory: the run pins [\d.]+ TiB .* leaves [\d.]+ GiB", last_line(run)), run.output


@needs_gpu
def test_host_budget_too_small(trainer):
    run = trainer(MODELS / "smollm2-135m.json", None, "1M", **SYNTHETIC, **TRAVELLING, host_memory="1GiB")
    assert run.returncode == 3, run.output
    assert re.search(r"does not fit\nhost memory: asked [\d.]+ GiB", run.output), run.output


@needs_gpu
def test_a_signal_within_a_step(trainer):
    """As on the CPU: what is under way is dropped, and the exit code is 0."""
    flags = {**SYNTHETIC, "steps": 1000}
    run = trainer.interrupted(MODELS / "smollm2-135m.json", None, "64K", TERMINATE, after_steps=1, delay_seconds=0.4,
                              **flags).check()
    assert re.search(r"stopped after \d+ of 1000 steps", run.output), run.output
    assert run.seconds_to_end < 10
    step_seconds = run.metrics[-1]["seconds"]["total"]
    print(f"\nended {run.seconds_to_end:.2f} s after the signal, steps took {step_seconds:.2f} s")
