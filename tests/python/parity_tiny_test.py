"""Tiny models of every kind: loss and gradients of oomb-train are those of transformers.

Tolerances. Both sides compute in fp32 (unit roundoff 6e-8) over sums of at most 448 terms and two layers; a loss near 6
then agrees to a few 1e-6, a gradient tensor to about 1e-5 of its norm. A wrong position, mask, scaling or bias changes
the loss by more than 1e-3 (test_models_notice_a_mistake).
"""

import json

import pytest
from safetensors.torch import load_file

from make_tiny_model import KINDS, save_tiny_model
from reference_step import loss_and_gradients, loss_of, make_optimizer, mean_loss, load_model, training_step
from support import wrong_gradients

LOSS_TOLERANCE = 1e-5
GRADIENT_TOLERANCE = {"relative": 1e-4, "floor": 1e-6}


@pytest.fixture(scope="module", params=KINDS)
def tiny(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny") / request.param
    save_tiny_model(folder, request.param, seed=11)
    return folder


def check_parity(trainer, model, data, tokens, **flags):
    run = trainer(model, data, len(tokens) - 1, gradients=True, **flags).check()
    loss, gradients = loss_and_gradients(model, tokens)
    assert run.losses[0] == pytest.approx(loss, abs=LOSS_TOLERANCE, rel=0)
    assert run.metrics[0]["tokens"] == len(tokens) - 1
    assert not wrong_gradients(load_file(run.gradients), gradients, **GRADIENT_TOLERANCE)
    return run


@pytest.mark.parametrize("context", [1, 2, 5, 17, 64])
def test_loss_and_gradients(trainer, tiny, sequence_file, context):
    data, tokens = sequence_file.random(context, seed=context)
    check_parity(trainer, tiny, data, tokens)


def test_past_the_original_positions(trainer, tiny, sequence_file):
    """Context 300: beyond the 64 and 128 positions that the scaled kinds name as their original length."""
    data, tokens = sequence_file.random(300, seed=3)
    check_parity(trainer, tiny, data, tokens, chunk=64, page_tokens=16)


@pytest.mark.parametrize("flags", [
    {"offload": "host"},
    {"keep": "xo"},
    {"offload": "host", "keep": "xo", "hbm_pages": "ring"},
    {"offload": "host", "keep": "x", "kept_pages": 5},
    {"offload": "host", "keep": "o", "kept_pages": 3, "held_chunks": 2, "hbm_pages": "ring"},
    {"keep": "auto", "held_chunks": "auto"},
    {"window": 16},
    {"chunk": 128},
], ids=lambda flags: "-".join(map(str, flags.values())))
def test_the_plan_does_not_change_the_gradients(trainer, tmp_path, sequence_file, flags):
    save_tiny_model(tmp_path / "model", "qwen3", seed=11)
    data, tokens = sequence_file.random(100, seed=4)
    check_parity(trainer, tmp_path / "model", data, tokens, **flags)


@pytest.mark.parametrize("flags", [
    {"local_window": 1}, {"local_window": 7}, {"local_window": 24, "offload": "host", "hbm_pages": "ring"},
    {"local_window": 33, "keep": "xo"}, {"local_window": 20, "window": 8},
], ids=lambda flags: "-".join(map(str, flags.values())))
def test_a_window_of_the_run_is_that_of_a_model_with_one(trainer, tmp_path, sequence_file, flags):
    save_tiny_model(tmp_path / "model", "mistral_window", seed=16, sliding_window=None)
    save_tiny_model(tmp_path / "with_window", "mistral_window", seed=16, sliding_window=flags["local_window"])
    data, tokens = sequence_file.random(100, seed=6)
    run = trainer(tmp_path / "model", data, 100, attention="local", gradients=True, **flags).check()
    loss, gradients = loss_and_gradients(tmp_path / "with_window", tokens)
    assert run.losses[0] == pytest.approx(loss, abs=LOSS_TOLERANCE, rel=0)
    assert not wrong_gradients(load_file(run.gradients), gradients, **GRADIENT_TOLERANCE)
    assert abs(loss - loss_of(tmp_path / "model", tokens)) > 100 * LOSS_TOLERANCE


def test_grad_norm_is_that_of_all_gradients(trainer, tmp_path, sequence_file):
    save_tiny_model(tmp_path / "model", "llama3", seed=11)
    data, tokens = sequence_file.random(40)
    run = trainer(tmp_path / "model", data, 40).check()
    _, gradients = loss_and_gradients(tmp_path / "model", tokens)
    expected = sum(float(gradient.double().square().sum()) for gradient in gradients.values()) ** 0.5
    assert run.metrics[0]["grad_norm"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_weights_stored_in_16_bits(trainer, tmp_path, sequence_file, dtype):
    save_tiny_model(tmp_path / "model", "qwen2", seed=12, dtype=dtype)
    data, tokens = sequence_file.random(40)
    check_parity(trainer, tmp_path / "model", data, tokens)


def older_spelling(folder):
    """The same configuration as versions before transformers 5 wrote it."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = None if rope["rope_type"] == "default" else {"type": rope.pop("rope_type"), **rope}
    config["torch_dtype"] = config.pop("dtype")
    path.write_text(json.dumps(config))


@pytest.mark.parametrize("kind", ["qwen2", "llama3", "yarn", "linear"])
def test_older_spelling_of_the_configuration(trainer, tmp_path, sequence_file, kind):
    save_tiny_model(tmp_path / "model", kind, seed=13)
    data, tokens = sequence_file.random(40)
    expected = loss_of(tmp_path / "model", tokens)
    older_spelling(tmp_path / "model")
    assert trainer(tmp_path / "model", data, 40).check().losses[0] == pytest.approx(expected, abs=LOSS_TOLERANCE, rel=0)


def test_optimizer_steps(trainer, tmp_path, sequence_file):
    """Losses over three AdamW steps with decay and clipping, at the learning rates that the trainer reports."""
    save_tiny_model(tmp_path / "model", "llama_bias", seed=14)
    data, tokens = sequence_file.random(48)
    run = trainer(tmp_path / "model", data, 48, steps=4, learning_rate=1e-2, weight_decay=0.1, beta1=0.9, beta2=0.95,
                  max_grad_norm=1.0, warmup_steps=1).check()
    model = load_model(tmp_path / "model")
    optimizer = make_optimizer(model, 1e-2, weight_decay=0.1)
    expected = [training_step(model, optimizer, tokens, record["learning_rate"]) for record in run.metrics]
    assert expected[0][0] - expected[-1][0] > 0.1
    # AdamW divides by the root of the second moment, so where a gradient is nearly zero its rounding decides the sign
    # of a step of 1e-2; a few such elements among thousands move the loss by some 1e-5.
    assert run.losses == pytest.approx([loss for loss, _ in expected], abs=2e-4, rel=0)
    assert [r["grad_norm"] for r in run.metrics] == pytest.approx([norm for _, norm in expected], rel=1e-3)


def test_the_loss_falls_and_runs_repeat(trainer, tmp_path, sequence_file):
    save_tiny_model(tmp_path / "model", "qwen3", seed=15)
    data, _ = sequence_file.random(48)
    first, second = (trainer(tmp_path / "model", data, 48, steps=8, learning_rate=1e-2).check() for _ in range(2))
    assert first.losses[-1] < first.losses[0] - 1
    assert first.losses == second.losses


@pytest.mark.parametrize("kind, changes", [
    ("yarn", {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}),
    ("llama3", {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}),
    ("linear", {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}),
    ("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 20000.0}}),
    ("qwen2", {"rms_norm_eps": 1e-2}),
    ("mistral_window", {"sliding_window": 12}),
    ("qwen2_window", {"sliding_window": 20}),
    ("qwen2_window", {"max_window_layers": 0}),
])
def test_models_notice_a_mistake(tmp_path, sequence_file, kind, changes):
    """The comparisons above can fail: another scaling, theta or epsilon changes the loss a hundred times more."""
    _, tokens = sequence_file.random(64, seed=64)
    save_tiny_model(tmp_path / "right", kind, seed=11)
    save_tiny_model(tmp_path / "wrong", kind, seed=11, **changes)
    assert abs(loss_of(tmp_path / "right", tokens) - loss_of(tmp_path / "wrong", tokens)) > 100 * LOSS_TOLERANCE


def test_models_notice_a_missing_bias(tmp_path, sequence_file):
    _, tokens = sequence_file.random(64, seed=64)
    save_tiny_model(tmp_path / "model", "llama_bias", seed=11)
    model = load_model(tmp_path / "model")
    right = float(mean_loss(model, tokens).detach())
    for name, parameter in model.named_parameters():
        if name.endswith("o_proj.bias"):
            parameter.data.zero_()
    assert abs(float(mean_loss(model, tokens).detach()) - right) > 100 * LOSS_TOLERANCE
