"""SmolLM2 on real text, on the GPU: oomb-train's gradients beside those of transformers.

The reference computes its products in float64. fp32 must agree with it as on the CPU; bf16 may be as far off as
transformers in bf16 is on the same input, and half as much again, for both round at other places.

In bf16 that holds for each matrix. The error of a norm weight's gradient, a sum over all tokens, lies in a few
directions that all tokens share: it is one draw, and the ratio of two draws has no bound. transformers' eager attention
is 0.33 to 2.75 times as far off as its sdpa, norm by norm (argparse.py of Python 3.11, on a CPU; matrices 0.69 to 1.41),
and 0.90 times in the root mean square over all 61. So that is what is held to the ratio.
"""

import pytest
import torch
from safetensors.torch import load_file

from reference_step import loss_and_gradients
from support import wrong_gradients

CONTEXT = 2048
BF16_RATIO = 1.5
PLACES = {"resident": {}, "offloaded": {"offload": "host", "hbm_pages": "ring"}}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
    pytest.mark.parametrize("chunk", [256, 512]),
    pytest.mark.parametrize("place", PLACES),
]


@pytest.fixture(scope="module")
def tokens(smollm2_tokens):
    return smollm2_tokens[:CONTEXT + 1]


@pytest.fixture(scope="module")
def exact(smollm2, tokens):
    loss, gradients = loss_and_gradients(smollm2, tokens, "fp64", device="cuda")
    return loss, {name: gradient.cpu() for name, gradient in gradients.items()}


def errors(found, expected):
    """Relative error of each tensor."""
    assert found.keys() == expected.keys()
    return {name: float((found[name].double() - reference).norm() / reference.norm())
            for name, reference in expected.items()}


def root_mean_square(values, names):
    return (sum(values[name] ** 2 for name in names) / len(names)) ** 0.5


@pytest.fixture(scope="module")
def errors_of_transformers(smollm2, tokens, exact):
    _, gradients = loss_and_gradients(smollm2, tokens, "bf16", device="cuda")
    return errors({name: gradient.cpu() for name, gradient in gradients.items()}, exact[1])


@pytest.fixture
def computed(trainer, smollm2, tokens, sequence_file, chunk, place):
    """Loss and gradients of oomb-train in a type. Windows of 512: up to four of history."""

    def run(dtype):
        flags = {"device": "cuda", "dtype": dtype, "chunk": chunk, "page_tokens": 128, "window": 512, **PLACES[place]}
        result = trainer(smollm2, sequence_file(tokens), CONTEXT, gradients=True, out=None, **flags).check()
        return result.losses[0], load_file(result.gradients)

    return run


def test_fp32(computed, exact):
    loss, found = computed("fp32")
    assert loss == pytest.approx(exact[0], abs=1e-4, rel=0)
    worst = max(errors(found, exact[1]).values())
    print(f"\nfp32: loss off by {abs(loss - exact[0]):.1e}, gradients by {worst:.1e} at most")
    # No absolute floor: every tensor of this model has a gradient far above rounding.
    assert not wrong_gradients(found, exact[1], relative=1e-3, floor=0)


def test_bf16(computed, exact, errors_of_transformers):
    loss, found = computed("bf16")
    ours = errors(found, exact[1])
    ratios = {name: ours[name] / errors_of_transformers[name] for name in ours if found[name].dim() == 2}
    norms = [name for name in ours if found[name].dim() == 1]
    norm_ratio = root_mean_square(ours, norms) / root_mean_square(errors_of_transformers, norms)
    print(f"\nbf16: loss off by {abs(loss - exact[0]):.1e}; error beside transformers: matrices "
          f"{min(ratios.values()):.2f} to {max(ratios.values()):.2f}, norm weights {norm_ratio:.2f}")
    assert {name: ratio for name, ratio in ratios.items() if not ratio <= BF16_RATIO} == {}
    assert norm_ratio <= BF16_RATIO
