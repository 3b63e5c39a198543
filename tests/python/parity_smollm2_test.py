"""SmolLM2 on real text: loss, gradients and saved folder agree with transformers."""

import json

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from reference_step import load_model, loss_and_gradients, loss_of
from support import load_tensors, wrong_gradients

CONTEXT = 2048

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tokens(smollm2_tokens):
    return smollm2_tokens[:CONTEXT + 1]


def test_smollm2_knows_something(smollm2):
    tokenizer = Tokenizer.from_file(str(smollm2 / "tokenizer.json"))
    prompt = tokenizer.encode("The capital of France is", add_special_tokens=False).ids
    with torch.no_grad():
        logits = load_model(smollm2)(input_ids=torch.tensor([prompt])).logits[0, -1]
    assert tokenizer.decode([int(logits.argmax())]) == " Paris"


def test_the_reference_reads_the_text(smollm2, tokens):
    """A model that understands the text is far below ln(49152) = 10.8; 2.0 is what this one reaches."""
    assert 1.5 < loss_of(smollm2, tokens) < 2.5


def test_loss_and_gradients(trainer, smollm2, tokens, sequence_file):
    data = sequence_file(tokens)
    run = trainer(smollm2, data, CONTEXT, gradients=True, chunk=256, page_tokens=128, threads=2).check()
    found = load_file(run.gradients)
    loss, expected = loss_and_gradients(smollm2, tokens)
    assert run.losses[0] == pytest.approx(loss, abs=1e-4, rel=0)
    # No absolute floor: every tensor of this model has a gradient far above rounding.
    assert not wrong_gradients(found, expected, relative=1e-3, floor=0)


def test_trained_folder_has_the_same_loss_in_transformers(trainer, smollm2, tokens, sequence_file):
    context = 512
    data = sequence_file(tokens[:context + 1])
    trained = trainer(smollm2, data, context, chunk=256, page_tokens=128, threads=2, learning_rate=1e-4).check()
    again = trainer(trained.out, data, context, chunk=256, page_tokens=128, threads=2).check()
    assert again.losses[0] < trained.losses[0]
    assert again.losses[0] == pytest.approx(loss_of(trained.out, tokens[:context + 1]), abs=1e-4, rel=0)
    tensors = load_tensors(trained.out)
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}
    assert json.loads((trained.out / "config.json").read_text())["tie_word_embeddings"]
    assert (trained.out / "tokenizer.json").read_bytes() == (smollm2 / "tokenizer.json").read_bytes()
