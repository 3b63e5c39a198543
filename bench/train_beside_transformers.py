#!/usr/bin/env python3
"""It trains: oomb-train on the GPU beside a plain transformers loop, loss and gradient norm step by step.

    bench/train_beside_transformers.py --model DIR --steps 160 --context 32768 --out build/train
    bench/train_beside_transformers.py --model DIR --data TOKENS.npy --steps 20 --out build/train

Both start from the same weights, read the same sequences in the same order, and take AdamW steps with the same betas,
decay, schedule and clipping. oomb-train computes in bf16 with fp32 master weights. transformers does both that is usual:
fp32 weights under bf16 autocast ("autocast": what is added up from layer to layer stays fp32), or a bf16 model with fp32
master weights ("masters"). Runs of it that differ in nothing (their sums are not deterministic), in the attention
kernel or in that: what these differ by is the noise that any two such trainings have. Without --data the Python files
of the standard library, then those of installed packages are tokenised until there are enough.

--rope-theta starts from a model that knows the positions: a folder OUT/model with that base and --context positions.

Writes OUT/train.json (every step of every run), OUT/train.md, and prints the differences. Runs that OUT/train.json already holds with
the same settings are kept, so that an interrupted comparison goes on. Exit codes: 0 done, 1 failed, 2 wrong usage.
"""

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import numpy

ROOT = Path(__file__).resolve().parents[1]
OURS = "oomb-train"
BETAS, EPSILON = (0.9, 0.95), 1e-8
SETTINGS = ("context", "steps", "rope_theta", "learning_rate", "warmup_steps", "weight_decay", "max_grad_norm", "oomb_flags")


def tokenised(args):
    """A token file that is long enough, made from what every machine with Python has."""
    path = args.out / "tokens.npy"
    if not path.is_file():
        folders = [sysconfig.get_path("stdlib"), *{sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}]
        needed = str(args.steps * args.context + 1)
        command = [sys.executable, ROOT / "tools/tokenize.py", "--model", args.model, "--out", path,
                   "--include", "*.py", "--invalid-utf8", "skip", "--limit-tokens", needed, *folders]
        subprocess.run(command, check=True)
    return path


def stretched_model(args):
    """The model folder with another RoPE base, so that the context lies inside the positions that it can tell apart."""
    folder = args.out / "model"
    folder.mkdir(exist_ok=True)
    for file in Path(args.model).resolve().iterdir():
        if file.name != "config.json" and not (folder / file.name).exists():
            (folder / file.name).symlink_to(file)
    config = json.loads((Path(args.model) / "config.json").read_text()) | {"max_position_embeddings": args.context}
    (config.get("rope_parameters") or config)["rope_theta"] = args.rope_theta
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    return folder


def learning_rate_at(args, step):
    """That of oomb-train: linear warm-up, then a cosine down to 0; the first step is 1."""
    if step <= args.warmup_steps:
        return args.learning_rate * step / args.warmup_steps
    done = (step - args.warmup_steps - 1) / (args.steps - args.warmup_steps)
    return args.learning_rate * 0.5 * (1 + math.cos(math.pi * done))


def oomb_run(args, data):
    metrics = args.out / "oomb-train.jsonl"
    metrics.unlink(missing_ok=True)
    flags = {"model": args.model, "data": data, "context": args.context, "steps": args.steps, "device": "cuda",
             "dtype": "bf16", "schedule": "cosine", "learning-rate": args.learning_rate,
             "warmup-steps": args.warmup_steps, "weight-decay": args.weight_decay, "beta1": BETAS[0],
             "beta2": BETAS[1], "epsilon": EPSILON, "max-grad-norm": args.max_grad_norm, "metrics": metrics}
    command = [args.oomb_train]
    for name, value in flags.items():
        command += [f"--{name}", str(value)]
    subprocess.run([*command, *args.oomb_flags.split()], check=True)
    return [{"step": record["step"], "loss": record["loss"], "grad_norm": record["grad_norm"],
             "learning_rate": record["learning_rate"], "seconds": record["seconds"]["total"]}
            for record in map(json.loads, metrics.read_text().splitlines())]


class Autocast:
    """fp32 weights, products in bf16."""

    def __init__(self, args):
        import torch
        from reference_step import load_model

        self.model = load_model(args.model, "fp32", checkpointing=args.checkpointing, device="cuda")
        self.context = torch.autocast("cuda", torch.bfloat16)

    def optimized(self):
        return self.model

    def gradients_ready(self):
        pass

    def weights_changed(self):
        pass


class Masters:
    """A bf16 model; the optimizer sees an fp32 copy, which the bf16 weights are rounded from."""

    def __init__(self, args):
        import contextlib
        import copy

        from reference_step import load_model

        self.model = load_model(args.model, "bf16", checkpointing=args.checkpointing, device="cuda")
        self.masters = copy.deepcopy(self.model).float()
        self.context = contextlib.nullcontext()

    def optimized(self):
        return self.masters

    def gradients_ready(self):
        for master, parameter in zip(self.masters.parameters(), self.model.parameters(), strict=True):
            master.grad, parameter.grad = parameter.grad.float(), None

    def weights_changed(self):
        import torch

        with torch.no_grad():
            for master, parameter in zip(self.masters.parameters(), self.model.parameters(), strict=True):
                parameter.copy_(master)


PRECISIONS = {"autocast": Autocast, "masters": Masters}
KERNELS = ("flash", "cudnn")


def torch_step(trained, optimizer, sequence, learning_rate, max_grad_norm, attention):
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    kernel = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}[attention]
    optimizer.zero_grad(set_to_none=True)
    with sdpa_kernel(kernel), trained.context:
        logits = trained.model(input_ids=sequence[None, :-1]).logits[0]
        loss = torch.nn.functional.cross_entropy(logits.float(), sequence[1:])
    with sdpa_kernel(kernel):
        loss.backward()
    trained.gradients_ready()
    # As oomb-train: 0 is no clipping.
    norm = torch.nn.utils.clip_grad_norm_(trained.optimized().parameters(), max_grad_norm or math.inf)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    optimizer.step()
    trained.weights_changed()
    return float(loss.detach()), float(norm)


def transformers_run(args, data, variant):
    sys.path.append(str(ROOT / "tools"))  # last: tools/tokenize.py must not hide the standard library's
    import torch
    from reference_step import make_optimizer

    attention, precision = variant.split("/")
    trained = PRECISIONS[precision](args)
    optimizer = make_optimizer(trained.optimized(), args.learning_rate, args.weight_decay, BETAS, EPSILON)
    tokens = numpy.load(data, mmap_mode="r")
    records = []
    for step in range(1, args.steps + 1):
        first = (step - 1) * args.context
        sequence = torch.as_tensor(tokens[first:first + args.context + 1].astype(numpy.int64)).cuda()
        begin, rate = time.perf_counter(), learning_rate_at(args, step)
        loss, norm = torch_step(trained, optimizer, sequence, rate, args.max_grad_norm, attention)
        records.append({"step": step, "loss": loss, "grad_norm": norm, "learning_rate": rate,
                        "seconds": time.perf_counter() - begin})
        print(f"transformers, {variant}: step {step}/{args.steps}: loss {loss:.4f}, gradient norm {norm:.3f}",
              file=sys.stderr)
    del trained, optimizer
    torch.cuda.empty_cache()
    return records


def differences(left, right):
    """Of two runs: |difference| of the losses, and of the gradient norms as a share of them."""
    losses = [abs(a["loss"] - b["loss"]) for a, b in zip(left, right, strict=True)]
    norms = [abs(a["grad_norm"] - b["grad_norm"]) / b["grad_norm"] for a, b in zip(left, right, strict=True)]
    return {"loss_mean": float(numpy.mean(losses)), "loss_max": max(losses),
            "grad_norm_mean": float(numpy.mean(norms)), "grad_norm_max": max(norms)}


def table(report):
    lines = [f"{report['tokens']:,} tokens in {report['steps']} steps of {report['context']:,}", ""]
    for name, records in report["runs"].items():
        seconds = [record["seconds"] for record in records[1:]] or [records[0]["seconds"]]
        lines.append(f"{name:32} loss {records[0]['loss']:.4f} -> {records[-1]['loss']:.4f}, "
                     f"{report['context'] / numpy.median(seconds):,.0f} tokens/s (median step)")
    lines += ["", f"{'|difference|':68} {'loss: mean':>11} {'max':>9} {'norm: mean':>11} {'max':>9}"]
    for pair, found in report["differences"].items():
        lines.append(f"{pair:68} {found['loss_mean']:11.6f} {found['loss_max']:9.6f} {found['grad_norm_mean']:11.2%} "
                     f"{found['grad_norm_max']:9.2%}")
    return "\n".join(lines)


def page(report):
    return "\n".join([
        f"# Training beside transformers: {report['model']}, {report['tokens']:,} tokens of real text", "",
        f"{report['steps']} AdamW steps of one sequence of {report['context']:,} tokens, learning rate {report['learning_rate']:g} after "
        f"{report['warmup_steps']} steps of warm-up, cosine;", f"decay {report['weight_decay']:g}, gradient norm clipped to {report['max_grad_norm']:g}. "
        f"oomb-train: bf16, fp32 masters, `{report['oomb_flags']}`.",
        *([f"RoPE base {report['rope_theta']:g} in place of the model's own."] if report["rope_theta"] else []),
        "Losses and gradient norms of every step and run are in the JSON beside.", "",
        "- Command: `bench/train_beside_transformers.py` (its help says what the variants are and what counts as noise).",
        f"- {report['oomb']}; one H200.", "", "```", table(report), "```"]) + "\n"


def compare(args):
    path = args.out / "train.json"
    name = Path(args.model).name
    data = args.data or tokenised(args)
    available = len(numpy.load(data, mmap_mode="r"))
    if available < args.steps * args.context + 1:
        raise ValueError(f"{data}: {available:,} tokens, {args.steps * args.context + 1:,} are needed")
    settings = {name: getattr(args, name) for name in SETTINGS} | {"data": Path(data).name}
    report = json.loads(path.read_text()) if path.is_file() else {}
    if any(report.get(name) != value for name, value in settings.items()):
        version = subprocess.run([args.oomb_train, "--version"], check=True, capture_output=True, text=True).stdout
        report = {**settings, "oomb": " ".join(version.split()), "model": name, "tokens": args.steps * args.context, "runs": {}}
    if args.rope_theta:
        args.model = stretched_model(args)
    names = [OURS, *(f"transformers {number}, {variant}" for number, variant in enumerate(args.variants.split(","), 1))]
    for name in names:
        if name not in report["runs"]:
            records = oomb_run(args, data) if name == OURS else transformers_run(args, data, name.split(", ")[1])
            report["runs"][name] = records
            path.write_text(json.dumps(report, indent=1) + "\n")
    report["differences"] = {f"{right} and {left}": differences(report["runs"][right], report["runs"][left])
                             for left, right in itertools.combinations(names, 2)}
    path.write_text(json.dumps(report, indent=1) + "\n")
    path.with_suffix(".md").write_text(page(report))
    print(table(report))


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="model folder")
    parser.add_argument("--data", type=Path, help="token file (default: Python files of this machine)")
    parser.add_argument("--out", required=True, type=Path, help="folder")
    parser.add_argument("--context", type=int, default=32768)
    parser.add_argument("--steps", type=int, default=160,
                        help="160 of 32,768 tokens: 5.2 million (default: %(default)s)")
    parser.add_argument("--rope-theta", type=float, help="RoPE base in place of the model's own")
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--warmup-steps", type=int, default=10)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--max-grad-norm", type=float, default=1.0)
    parser.add_argument("--variants", default="flash/autocast,flash/autocast,flash/masters",
                        help="transformers runs: kernel flash or cudnn, precision autocast or masters (default: %(default)s)")
    parser.add_argument("--checkpointing", action="store_true", help="transformers recomputes each layer in backward")
    parser.add_argument("--oomb-train", default=Path(os.environ.get("OOMB_BIN", ROOT / "build/bin")) / "oomb-train")
    parser.add_argument("--oomb-flags", default="--offload host --hbm-pages ring", help="(default: %(default)s)")
    args = parser.parse_args(argv)
    if args.steps < 1 or args.context < 1 or not 0 <= args.warmup_steps < args.steps:
        parser.error("--steps and --context must be at least 1, --warmup-steps below --steps")
    allowed = {f"{kernel}/{precision}" for kernel in KERNELS for precision in PRECISIONS}
    if not set(args.variants.split(",")) <= allowed:
        parser.error(f"--variants {args.variants}: allowed are {', '.join(sorted(allowed))}, separated by commas")
    args.out.mkdir(parents=True, exist_ok=True)
    return args


def main(argv=None):
    args = parse(argv)
    try:
        compare(args)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"train_beside_transformers: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
