"""What oomb-train refuses: one clear message, the right exit code, nothing written."""

import hashlib
import json
import re

import numpy
import pytest
import torch
from safetensors.torch import load_file, save_file

from support import CONTEXT


def check_refused(run, exit_code, *words):
    assert run.returncode == exit_code, run.output
    for word in words:
        assert re.search(word, run.output), run.output
    assert run.metrics == []
    assert not list(run.out.parent.glob("*out*"))


def sidecar(tokens, tokenizer_sha256):
    return {"format_version": 1, "tokens": tokens, "dtype": "uint16", "documents": [0, tokens],
            "tokenizer_sha256": tokenizer_sha256, "eos_token_id": 0, "sources": 1, "bytes": tokens}


def test_tokens_of_another_tokenizer(trainer, model, sequence_file):
    (model / "tokenizer.json").write_text('{"version": "1.0"}')
    tokens = numpy.arange(CONTEXT + 1)
    right = hashlib.sha256((model / "tokenizer.json").read_bytes()).hexdigest()
    trainer(model, sequence_file(tokens, sidecar(len(tokens), right)), CONTEXT).check()
    wrong = hashlib.sha256(b"another").hexdigest()
    check_refused(trainer(model, sequence_file(tokens, sidecar(len(tokens), wrong)), CONTEXT), 1, "tokenizer")


def test_a_sidecar_that_contradicts_its_file(trainer, model, sequence_file):
    tokens = numpy.arange(CONTEXT + 1)
    check_refused(trainer(model, sequence_file(tokens, sidecar(len(tokens) - 1, "")), CONTEXT), 1, r"\.json")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_weight_that_is_no_number(trainer, model, data, value):
    path = model / "model.safetensors"
    tensors = load_file(path)
    tensors["model.layers.1.mlp.down_proj.weight"][3, 5] = value
    save_file(tensors, path, metadata={"format": "pt"})
    check_refused(trainer(model, data, CONTEXT, learning_rate=1e-3), 1, r"model\.\S+|lm_head\S*")


def test_a_damaged_file(trainer, model, data):
    path = model / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-100])
    check_refused(trainer(model, data, CONTEXT), 1, r"model\.safetensors")
    path.write_bytes((1 << 62).to_bytes(8, "little") + content[8:])
    check_refused(trainer(model, data, CONTEXT), 1, r"model\.safetensors")


def test_a_tensor_of_another_shape(trainer, model, data):
    path = model / "model.safetensors"
    tensors = load_file(path)
    tensors["model.norm.weight"] = torch.ones(7)
    save_file(tensors, path, metadata={"format": "pt"})
    check_refused(trainer(model, data, CONTEXT), 1, r"model\.norm\.weight", "7")


@pytest.mark.parametrize("key, value", [
    ("model_type", "mixtral"), ("hidden_act", "gelu"), ("layer_types", ["sliding_attention"] * 2),
    ("quantization_config", {"bits": 4}), ("hidden_size", -1), ("num_key_value_heads", 5), ("vocab_size", "many"),
])
def test_a_configuration_that_is_not_computed(trainer, model, data, key, value):
    config = json.loads((model / "config.json").read_text())
    config[key] = value
    (model / "config.json").write_text(json.dumps(config))
    check_refused(trainer(model, data, CONTEXT), 1, key)


def test_data_that_cannot_be_used(trainer, model, sequence_file, tmp_path):
    check_refused(trainer(model, sequence_file([1, 2, 320] * 20), CONTEXT), 1, "320")
    check_refused(trainer(model, sequence_file([]), CONTEXT), 1, "token")
    check_refused(trainer(model, sequence_file([1] * CONTEXT), CONTEXT), 1, str(CONTEXT))
    check_refused(trainer(model, tmp_path / "absent.npy", CONTEXT), 1, r"absent\.npy")


@pytest.mark.parametrize("flags, words", [
    ({"chunk": 12}, ("chunk", "12", "8")),
    ({"dtype": "fp8"}, ("dtype", "fp8")),
    ({"steps": -1}, ("steps",)),
    ({"context": 0}, ("context",)),
    ({"no_such_flag": 1}, ("no-such-flag",)),
    ({"attention": "topk"}, ("--attention topk needs --top-k",)),
    ({"attention": "topk", "top_k": 0}, ("--top-k", "found 0", "from 1")),
    ({"top_k": 4}, ("--top-k", "found 4", "--attention dense")),
    ({"attention": "topk", "top_k": 3, "window": 16}, ("--top-k 3 with --window 16", "2 pages of 8")),
    ({"attention": "local"}, ("--attention local needs --local-window",)),
    ({"local_window": 16}, ("--local-window", "found 16", "--attention dense")),
    ({"attention": "local", "local_window": 16, "sinks": 3}, ("--sinks", "3 tokens", "8 tokens")),
    ({"attention": "local", "local_window": 8, "sinks": 8, "chunk": 16, "device": "cuda"},
     ("--sinks 8 with --local-window 8 below --chunk 16", "--local-window 16")),
    ({"hardware": "h200.json"}, ("--hardware", "h200.json", "--device cpu")),
], ids=lambda value: "-".join(value) if isinstance(value, dict) else "")
def test_wrong_usage(trainer, model, data, flags, words):
    run = trainer(model, data, **{"context": CONTEXT, **flags})
    check_refused(run, 2, *words)
