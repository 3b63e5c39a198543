#!/usr/bin/env python3
"""What transformers computes: loss and gradients of one sequence, or the speed of its ordinary training step.

The first context + 1 tokens of --data are one sequence; token i is trained to predict token i + 1, and the loss is the
mean over all `context` targets. Prints one JSON object. fp64 raises the precision of the matrix products only:
transformers keeps its norms and rotary angles in fp32.

    reference_step.py --model DIR --data tokens.npy --context 2048 --gradients out.safetensors
    reference_step.py --model DIR --data tokens.npy --context 2048 --time --checkpointing --steps 3 --threads 2

Exit codes: 0 done, 1 failed, 2 wrong usage.
"""

import sys

sys.path.append(sys.path.pop(0))  # this folder goes last: its tokenize.py would hide the standard library's

import argparse
import json
import os
import re
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy
import torch
from oomb_tools.failure import Failure
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}


def load_model(folder, dtype="fp32", attention="sdpa", checkpointing=False, device="cpu"):
    model = AutoModelForCausalLM.from_pretrained(
        str(folder), dtype=DTYPES[dtype], attn_implementation=attention, local_files_only=True).to(device)
    model.config.use_cache = False
    if checkpointing:
        model.activation_checkpointing_enable({"use_reentrant": False})
    return model.train()


def read_sequence(path, context):
    tokens = numpy.load(path, mmap_mode="r")
    if len(tokens) < context + 1:
        raise Failure(f"{path}: {len(tokens)} tokens, {context + 1} are needed for a context of {context}")
    return tokens[:context + 1].astype(numpy.int64)


def mean_loss(model, tokens, loss_type=torch.float64):
    """Mean cross entropy over the targets tokens[1:], each predicted from all tokens before it.

    In float64 unless told otherwise: PyTorch's float32 softmax over a large vocabulary sums too little, by 1.6e-5 of every
    probability with 49,152 tokens, and that bias alone moves gradients of norm weights by up to 3e-3.
    """
    sequence = torch.as_tensor(numpy.asarray(tokens, numpy.int64)).to(model.device)
    logits = model(input_ids=sequence[None, :-1]).logits[0]
    return torch.nn.functional.cross_entropy(logits.to(loss_type), sequence[1:])


def loss_of(folder, tokens, dtype="fp32"):
    with torch.no_grad():
        return float(mean_loss(load_model(folder, dtype), tokens))


def gradients_of(model):
    """By parameter name; a tied head has none of its own."""
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def loss_and_gradients(folder, tokens, dtype="fp32", attention="sdpa", device="cpu"):
    model = load_model(folder, dtype, attention, device=device)
    loss = mean_loss(model, tokens)
    loss.backward()
    return float(loss.detach()), gradients_of(model)


def make_optimizer(model, learning_rate, weight_decay=0.0, betas=(0.9, 0.95), eps=1e-8):
    """AdamW with decoupled decay on matrices only: none on norms and biases."""
    parameters = list(model.parameters())
    groups = [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": weight_decay},
              {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=betas, eps=eps, foreach=False)


def training_step(model, optimizer, tokens, learning_rate, max_grad_norm=1.0):
    """Loss and gradient norm before the step, as an ordinary trainer computes them."""
    optimizer.zero_grad(set_to_none=True)
    loss = mean_loss(model, tokens, loss_type=torch.float32)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    optimizer.step()
    return float(loss.detach()), float(norm)


def status_bytes(key):
    """A size from /proc/self/status: VmHWM is the peak resident size, VmRSS the present one."""
    match = re.search(rf"^{key}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(match.group(1)) * 1024


def time_steps(args, tokens):
    resident_before = status_bytes("VmRSS")
    model = load_model(args.model, args.dtype, args.attention, args.checkpointing)
    optimizer = make_optimizer(model, args.learning_rate)
    seconds, losses = [], []
    for step in range(args.steps):
        begin = time.perf_counter()
        loss, _ = training_step(model, optimizer, tokens, args.learning_rate)
        seconds.append(time.perf_counter() - begin)
        losses.append(loss)
        print(f"reference_step: step {step + 1} of {args.steps}: {seconds[-1]:.2f} s, loss {loss:.4f}", file=sys.stderr)
    # The first step also fills caches and allocates the optimizer's state.
    measured = seconds[1:] or seconds
    return {"tokens_per_second": args.context * len(measured) / sum(measured), "seconds": seconds, "losses": losses,
            "peak_resident_bytes": status_bytes("VmHWM"), "resident_before_model_bytes": resident_before,
            "checkpointing": args.checkpointing, "threads": torch.get_num_threads()}


def step_once(args, tokens):
    loss, gradients = loss_and_gradients(args.model, tokens, args.dtype, args.attention)
    if args.gradients:
        save_file({name: gradient.contiguous() for name, gradient in gradients.items()}, args.gradients)
    norm = torch.linalg.vector_norm(torch.stack([gradient.norm() for gradient in gradients.values()]))
    return {"loss": loss, "grad_norm": float(norm)}


def run(args):
    if args.threads:
        torch.set_num_threads(args.threads)
    tokens = read_sequence(args.data, args.context)
    result = time_steps(args, tokens) if args.time else step_once(args, tokens)
    print(json.dumps({"context": args.context, "dtype": args.dtype, "attention": args.attention, **result}))


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, metavar="DIR", help="model folder")
    parser.add_argument("--data", required=True, metavar="FILE.npy", help="token file")
    parser.add_argument("--context", required=True, type=int, metavar="TOKENS", help="length of the sequence")
    parser.add_argument("--dtype", choices=DTYPES, default="fp32", help="of the products (default: %(default)s)")
    parser.add_argument("--attention", choices=("sdpa", "eager"), default="sdpa", help="(default: %(default)s)")
    parser.add_argument("--threads", type=int, help="threads of PyTorch (default: its own choice)")
    parser.add_argument("--gradients", metavar="FILE.safetensors", help="write the gradients by parameter name")
    parser.add_argument("--time", action="store_true", help="measure full AdamW training steps instead")
    parser.add_argument("--checkpointing", action="store_true", help="with --time: recompute each layer in backward")
    parser.add_argument("--steps", type=int, default=3,
                        help="with --time; the first is not counted (default: %(default)s)")
    parser.add_argument("--learning-rate", type=float, default=1e-5, help="with --time (default: %(default)s)")
    args = parser.parse_args(argv)
    if min(args.context, args.steps) < 1:
        parser.error("--context and --steps must be at least 1")
    return args


def main(argv=None):
    args = parse(argv)
    try:
        run(args)
    except (Failure, OSError, ValueError) as error:
        print(f"reference_step: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
