"""oomb-train eval --device cuda: recall, gradient error and losses are those of the CPU, in fp32."""

import json
import subprocess

import numpy
import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

CONTEXT = 300
FLAGS = ["--context", CONTEXT, "--chunk", 64, "--page-tokens", 16, "--window", 64, "--dtype", "fp32", "--offload", "host"]
# Sums of some 1e3 products in fp32 through two layers, as in the tests of gradients; a cosine is of numbers that size.
TOLERANCE = 1e-4


@pytest.fixture
def on_both(program, model, sequence_file, tmp_path):
    """The JSON of one command on either device, and its losses."""
    data = sequence_file(numpy.random.default_rng(5).integers(0, 320, CONTEXT + 1))

    def run(*words):
        found = []
        for device in ("cpu", "cuda"):
            out, losses = tmp_path / f"{device}.json", tmp_path / f"{device}.npy"
            more = [] if "--gradient-error" in words else ["--losses", losses]
            command = [program("oomb-train"), "eval", "--model", model, "--data", data, *FLAGS, "--device", device, "--json", out, *words, *more]
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            found.append((json.loads(out.read_text()), numpy.load(losses) if more else None))
        return found

    return run


def test_recall(on_both):
    (cpu, cpu_losses), (cuda, cuda_losses) = on_both("--recall", "--budgets", "1,3,8")
    assert cuda_losses == pytest.approx(cpu_losses, abs=TOLERANCE)
    for expected, found in zip(cpu["recall"], cuda["recall"], strict=True):
        assert sum(found["distances"]) == sum(expected["distances"])
        for key in ("layer", "pages", "query_pages", "all_mass", "history_mass", "best", "latest", "random"):
            assert found[key] == pytest.approx(expected[key], rel=TOLERANCE), key
        # A page of a score that differs by less than rounding may take another's place.
        assert found["top_k"] == pytest.approx(expected["top_k"], rel=1e-2)


@pytest.mark.parametrize("attention", ["topk", "random"])
def test_gradient_error(on_both, attention):
    (cpu, _), (cuda, _) = on_both("--gradient-error", "--attention", attention, "--budgets", "1,4")
    assert cuda["dense_loss"] == pytest.approx(cpu["dense_loss"], abs=TOLERANCE)
    for expected, found in zip(cpu["gradient_error"], cuda["gradient_error"], strict=True):
        assert (found["pages"], found["layer"], found["of"]) == (expected["pages"], expected["layer"], expected["of"])
        for key in ("cosine", "norm_ratio", "relative_error"):
            assert found[key] == pytest.approx(expected[key], abs=1e-2), (key, found)
