#!/usr/bin/env python3
"""Makes a tiny model folder of random weights through transformers, one of each kind that OOMB computes.

Every tensor is drawn, norms and biases too (transformers would leave them at one and zero, where a mistake in them does
not show), and the weights are larger than usual, so that attention is far from uniform. Exit codes: 0, 1, 2.
"""

import sys

sys.path.append(sys.path.pop(0))  # this folder goes last: its tokenize.py would hide the standard library's

import argparse
import os
import shutil
import tempfile
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from oomb_tools.failure import Failure
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

COMMON = {"vocab_size": 320, "num_hidden_layers": 2, "intermediate_size": 160, "max_position_embeddings": 512,
          "bos_token_id": None, "eos_token_id": 0, "pad_token_id": None}
LLAMA3_ROPE = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
YARN_ROPE = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 128}
LINEAR_ROPE = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}


def default_rope(theta):
    return {"rope_type": "default", "rope_theta": theta}


def heads(queries, keys):
    return {"num_attention_heads": queries, "num_key_value_heads": keys}


# Ratios of query to KV heads 1, 2, 3 and 7; head sizes 16 to 128, given and derived; tied and untied heads.
KINDS = {
    "qwen2": (Qwen2Config, {"hidden_size": 448, **heads(7, 1), "tie_word_embeddings": True,
                            "rope_parameters": default_rope(1e6)}),
    "qwen3": (Qwen3Config, {"hidden_size": 96, **heads(6, 2), "head_dim": 64, "tie_word_embeddings": False,
                            "rope_parameters": default_rope(1e6)}),
    "llama": (LlamaConfig, {"hidden_size": 64, **heads(4, 4), "tie_word_embeddings": False, "rms_norm_eps": 1e-5,
                            "rope_parameters": default_rope(1e4)}),
    "llama3": (LlamaConfig, {"hidden_size": 192, **heads(3, 1), "tie_word_embeddings": True, "rms_norm_eps": 1e-5,
                             "rope_parameters": LLAMA3_ROPE}),
    "llama_bias": (LlamaConfig, {"hidden_size": 64, **heads(2, 1), "attention_bias": True,
                                 "tie_word_embeddings": False, "rope_parameters": default_rope(1e4)}),
    "mistral": (MistralConfig, {"hidden_size": 160, **heads(2, 2), "head_dim": 128, "sliding_window": None,
                                "tie_word_embeddings": False, "rope_parameters": default_rope(1e6)}),
    "mistral_window": (MistralConfig, {"hidden_size": 64, **heads(4, 2), "sliding_window": 13,
                                       "tie_word_embeddings": False, "rope_parameters": default_rope(1e4)}),
    "qwen2_window": (Qwen2Config, {"hidden_size": 64, **heads(4, 2), "use_sliding_window": True, "sliding_window": 21,
                                   "max_window_layers": 1, "tie_word_embeddings": True,
                                   "rope_parameters": default_rope(1e4)}),
    "yarn": (Qwen3Config, {"hidden_size": 128, **heads(4, 2), "head_dim": 64, "tie_word_embeddings": True,
                           "rope_parameters": YARN_ROPE}),
    "linear": (LlamaConfig, {"hidden_size": 64, **heads(2, 1), "tie_word_embeddings": True,
                             "rope_parameters": LINEAR_ROPE}),
}


def draw(model, seed):
    """Fills every parameter, in the order of their names."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            value = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() == 2:
                value *= 0.7 * parameter.shape[1] ** -0.5
            else:
                value = value * 0.1 + (0.0 if name.endswith("bias") else 1.0)
            parameter.copy_(value)


def tiny_model(kind, seed=0, **changes):
    """The model in fp32; `changes` overwrite entries of its configuration."""
    config_class, settings = KINDS[kind]
    config = config_class(**{**COMMON, **settings, **changes})
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.generation_config.pad_token_id = None
    draw(model, seed)
    return model


def save_tiny_model(folder, kind, seed=0, dtype="fp32", shard_size=None, **changes):
    model = tiny_model(kind, seed, **changes).to(DTYPES[dtype])
    model.save_pretrained(folder, **({"max_shard_size": shard_size} if shard_size else {}))
    for path in Path(folder).glob("*.safetensors"):
        path.chmod(0o644)  # safetensors makes its files private to their owner


def make(args):
    out = Path(args.out)
    if out.exists():
        raise Failure(f"{out}: exists; remove it or name another --out")
    out.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}-"))
    try:
        save_tiny_model(beside, args.kind, args.seed, args.dtype, args.shard_size)
        beside.chmod(0o755)
        os.rename(beside, out)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=KINDS, required=True, help="which model")
    parser.add_argument("--out", required=True, metavar="DIR", help="model folder to write; must not exist")
    parser.add_argument("--seed", type=int, default=0, help="of the weights (default: %(default)s)")
    parser.add_argument("--dtype", choices=DTYPES, default="fp32", help="of the saved tensors (default: %(default)s)")
    parser.add_argument("--shard-size", metavar="SIZE", help="largest file, as 100KB (default: one file)")
    try:
        make(parser.parse_args(argv))
    except (Failure, OSError) as error:
        print(f"make_tiny_model: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
