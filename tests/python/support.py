"""Helpers of the tests that run oomb-train: token files of one sequence, runs, comparisons."""

import json
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy
import torch
from safetensors.torch import load_file

TIMEOUT_SECONDS = 900
CONTEXT = 40  # of the tiny model's runs


class SequenceFile:
    """Makes token files that hold exactly one training sequence (context + 1 tokens)."""

    def __init__(self, folder):
        self._folder = Path(folder)
        self._made = 0

    def __call__(self, tokens, sidecar=None):
        self._made += 1
        path = self._folder / f"sequence-{self._made}.npy"
        numpy.save(path, numpy.asarray(tokens, numpy.uint16))
        if sidecar is not None:
            path.with_name(path.name + ".json").write_text(json.dumps(sidecar))
        return path

    def random(self, context, vocab=320, seed=0):
        tokens = numpy.random.default_rng(seed).integers(0, vocab, context + 1)
        return self(tokens), tokens


@dataclass
class Run:
    returncode: int
    output: str  # stdout and stderr
    metrics: list
    out: Path
    gradients: Path
    seconds_to_end: float = 0.0  # from the signal of interrupted() on

    def check(self):
        assert self.returncode == 0, self.output
        return self

    @property
    def losses(self):
        return [record["loss"] for record in self.metrics]


def read_metrics(path):
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


class Trainer:
    """Runs oomb-train with defaults that suit tiny models; keyword arguments become flags, None leaves one out."""

    # One thread: where several processes share the cores, threads of tiny operations mostly wait for one another.
    DEFAULTS = {"chunk": 16, "page_tokens": 8, "steps": 1, "learning_rate": 0, "dtype": "fp32", "threads": 1, "seed": 1}

    def __init__(self, program, folder):
        self._program, self._folder = program, Path(folder)
        self._runs = 0

    def _command(self, model, data, context, flags):
        self._runs += 1
        run = self._folder / f"run-{self._runs}"
        run.mkdir()
        flags = {**self.DEFAULTS, "model": model, "data": data, "context": context, "out": run / "out",
                 "metrics": run / "metrics.jsonl", **flags}
        command = [str(self._program)]
        for name, value in flags.items():
            if value is True:
                command.append("--" + name.replace("_", "-"))
            elif value is not None:
                command += ["--" + name.replace("_", "-"), str(value)]
        return command, run, Path(flags["metrics"] or run / "metrics.jsonl")

    @staticmethod
    def _result(run, metrics, returncode, output):
        return Run(returncode, output, read_metrics(metrics), run / "out", run / "gradients.safetensors")

    def __call__(self, model, data, context, gradients=False, **flags):
        command, run, metrics = self._command(model, data, context, flags)
        if gradients:
            command += ["--dump-gradients", str(run / "gradients.safetensors")]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                timeout=TIMEOUT_SECONDS)
        return self._result(run, metrics, result.returncode, result.stdout)

    def interrupted(self, model, data, context, number, after_steps, delay_seconds=0.0, **flags):
        """Sends the signal `delay_seconds` after `after_steps` steps are in the metrics."""
        command, run, metrics = self._command(model, data, context, flags)
        with open(run / "log", "w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
            end = time.monotonic() + TIMEOUT_SECONDS
            while process.poll() is None and len(read_metrics(metrics)) < after_steps:
                assert time.monotonic() < end, "no step was finished in time"
                time.sleep(0.02)
            time.sleep(delay_seconds)
            assert process.poll() is None, (run / "log").read_text()
            process.send_signal(number)
            begin = time.monotonic()
            returncode = process.wait(TIMEOUT_SECONDS)
            seconds_to_end = time.monotonic() - begin
        result = self._result(run, metrics, returncode, (run / "log").read_text())
        result.seconds_to_end = seconds_to_end
        return result


TERMINATE, KILL = signal.SIGTERM, signal.SIGKILL


def load_tensors(folder):
    """All tensors of a model folder, from one file or from the shards of its index."""
    index = Path(folder) / "model.safetensors.index.json"
    names = ["model.safetensors"]
    if index.is_file():
        names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    tensors = {}
    for name in names:
        tensors.update(load_file(Path(folder) / name))
    return tensors


def differing_bits(left, right):
    """Names of tensors that are not bit for bit the same (type and shape included), or are in one side only."""
    def same(name):
        a, b = left[name], right[name]
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.reshape(-1).view(torch.uint8),
                                                                         b.reshape(-1).view(torch.uint8))

    common = left.keys() & right.keys()
    return sorted((left.keys() ^ right.keys()) | {name for name in common if not same(name)})


def wrong_gradients(found, expected, relative, floor):
    """Differences |found - expected| above relative * |expected| + floor * |all expected|, by name, with the excess.

    The floor is for tensors whose gradient is zero or nearly so (keys when there is one token), where rounding is all
    that there is.
    """
    assert found.keys() == expected.keys()
    total = torch.stack([gradient.double().norm() for gradient in expected.values()]).norm()
    wrong = {}
    for name, reference in expected.items():
        assert found[name].shape == reference.shape, name
        difference = (found[name].double() - reference.double()).norm()
        allowed = relative * reference.double().norm() + floor * total
        if not difference <= allowed:  # NaN is wrong too
            wrong[name] = float(difference / allowed)
    return wrong
