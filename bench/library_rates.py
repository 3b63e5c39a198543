#!/usr/bin/env python3
"""Matrix products and attention calls alone: as the CUDA backend makes them, and as PyTorch does, one after the other.

    python bench/library_rates.py --bench build/ci/bench/library_rates_bench --out docs/measurements/libraries-h200

Shapes of Qwen2.5-7B with a chunk of 8,192 tokens, bfloat16, random data. Each call is repeated for 0.3 seconds
after as long a warm-up, in bursts of some 50 ms, so that rates are those that the card sustains within its power. PyTorch: matmul through
cuBLAS (a weight's gradient in bf16, not added to: it has no call for more), attention through cuDNN. Writes OUT.json
(readings, machine) and OUT.md (the table).
"""

import argparse
import json
import subprocess
from datetime import date
from pathlib import Path

ROWS, HIDDEN, FFN, VOCAB = 8192, 3584, 18944, 152064
HEADS, KV_HEADS, HEAD_DIM = 28, 4, 128
LINEARS = {"query": (ROWS, HIDDEN, HIDDEN), "gate and up": (ROWS, 2 * FFN, HIDDEN), "down": (ROWS, HIDDEN, FFN),
           "head": (ROWS // 2, VOCAB, HIDDEN)}
WARM_UP, BURSTS = 6, 6


def rate(flops, call):
    """TFLOP/s of a call of so many FLOPs, over bursts of some 50 ms between events."""
    import torch

    calls = max(1, int(0.05 * 600e12 / flops))

    def burst():
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3 / calls

    seconds = [burst() for _ in range(WARM_UP + BURSTS)][WARM_UP:]
    return 1e-12 * flops * BURSTS / sum(seconds)


def torch_rates():
    """TFLOP/s by the names of library_rates_bench.cpp."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    def normal(*shape, deviation=1.0):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * deviation

    rates = {}
    for name, (rows, outputs, inputs) in LINEARS.items():
        x, dy, weights = normal(rows, inputs), normal(rows, outputs), normal(outputs, inputs, deviation=0.02)
        dw = torch.empty_like(weights)
        forms = {"output": lambda: torch.mm(x, weights.T, out=dy), "input gradient": lambda: torch.mm(dy, weights, out=x),
                 "weight gradient": lambda: torch.mm(dy.T, x, out=dw)}
        for form, call in forms.items():
            rates[f"{name}, {form}"] = rate(2 * rows * outputs * inputs, call)
        del x, dy, weights, dw
    for factor in (1, 2, 4, 8):
        keys, causal = factor * ROWS, factor == 1
        q = normal(1, ROWS, HEADS, HEAD_DIM).transpose(1, 2).requires_grad_()
        k, v = (normal(1, keys, KV_HEADS, HEAD_DIM).transpose(1, 2).requires_grad_() for _ in range(2))
        d_o = normal(1, ROWS, HEADS, HEAD_DIM).transpose(1, 2)

        def forward():
            return scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)

        pairs = ROWS * (ROWS + 1) / 2 if causal else ROWS * keys
        flops = 4 * pairs * HEADS * HEAD_DIM
        label = f"attention {'causal' if causal else 'over'} {keys}"
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            with torch.no_grad():
                rates[f"{label}, forward"] = rate(flops, forward)
            o = forward()
            rates[f"{label}, backward"] = rate(
                2.5 * flops, lambda: torch.autograd.grad(o, (q, k, v), d_o, retain_graph=True))
    return rates


def our_rates(bench):
    command = [str(bench), "--benchmark_format=json"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {row["name"].split("/")[0]: row["TFLOP/s"] for row in found["benchmarks"]}


def gpu_state():
    fields = "name,driver_version,clocks.sm,power.draw,temperature.gpu"
    return subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"], capture_output=True,
                          text=True).stdout.strip().splitlines()


def page(result):
    lines = ["# Matrix products and attention alone, on one H200", "",
             "TFLOP/s, sustained. Qwen2.5-7B's shapes, a chunk of 8,192 tokens (the head: 4,096), bfloat16, random data. Ours: the calls that",
             "the CUDA backend makes (`MatrixProducts`, `CudnnAttention`). Beside them PyTorch's of the same libraries; its weight gradients are",
             "bf16 and not added to, ours are added to fp32 ones. Attention counts the pairs that a causal mask leaves.", "",
             f"- Command: `python bench/library_rates.py --bench library_rates_bench --out OUT`; {result['date']}; readings in the JSON beside.",
             f"- Commit: `{result['commit']}`.",
             f"- Machine: {'; '.join(result['gpu_after'])}.", "", "| call | ours | PyTorch | ratio |", "| --- | --- | --- | --- |"]
    for name, ours in result["ours"].items():
        theirs = result["pytorch"][name]
        lines.append(f"| {name} | {ours:.0f} | {theirs:.0f} | {ours / theirs:.2f} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path, help="path without extension")
    parser.add_argument("--commit", default="unknown")
    args = parser.parse_args()
    result = {"commit": args.commit, "date": date.today().isoformat(), "gpu_before": gpu_state()}
    result["ours"] = our_rates(args.bench.resolve())
    result["pytorch"] = torch_rates()
    result["gpu_after"] = gpu_state()
    args.out.with_suffix(".json").write_text(json.dumps(result, indent=1))
    args.out.with_suffix(".md").write_text(page(result))


if __name__ == "__main__":
    main()
