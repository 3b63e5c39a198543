"""oomb-train --dry-run: the plan, and what a run would refuse. And the commands that oomb-plan prints for oomb-train."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from support import CONTEXT

ROOT = Path(__file__).resolve().parents[2]
MODELS = sorted((ROOT / "models").glob("*.json"))


def peaks(text):
    return re.findall(r"^  peak .*$", text, re.MULTILINE)


def test_prints_the_plan_and_writes_nothing(trainer, model, data):
    run = trainer(model, data, CONTEXT, dry_run=True).check()
    assert len(peaks(run.output)) >= 2 and "time of a step: not predicted" in run.output
    assert not run.out.exists() and run.metrics == []


def test_data_and_outputs_are_checked_as_in_a_run(trainer, model, data, sequence_file, tmp_path):
    def refused(word, data=data, **flags):
        for dry_run in (True, None):
            run = trainer(model, data, CONTEXT, dry_run=dry_run, **flags)
            assert run.returncode == 1 and word in run.output, run.output

    (tmp_path / "taken").mkdir()
    (tmp_path / "file").write_text("")
    refused("absent.npy", data=tmp_path / "absent.npy")
    refused(str(CONTEXT), data=sequence_file([1] * CONTEXT))
    refused("320", data=sequence_file([1, 2, 320] * 20))
    refused("taken", out=tmp_path / "taken")
    refused("nowhere", out=tmp_path / "nowhere" / "out")
    refused("exists already", metrics=tmp_path / "file")
    refused("there is no folder", metrics=tmp_path / "nowhere" / "metrics.jsonl")
    refused("there is no folder", trace=tmp_path / "nowhere" / "trace")
    (tmp_path / "out-step1").mkdir()
    refused("out-step1", out=tmp_path / "out", save_every=1, steps=2)
    (model / "model.safetensors").unlink()
    refused("model.safetensors")


def test_without_data_only_the_plan(trainer, model):
    trainer(model, None, CONTEXT, dry_run=True).check()


@pytest.mark.parametrize("flags, words", [
    ({"no_optimizer": True, "learning_rate": None}, ("--out", "--no-optimizer", "leave one")),
    ({"synthetic": True, "data": None}, ("--out", "--synthetic", "--data")),
    ({"no_optimizer": True, "out": None}, ("--learning-rate with --no-optimizer",)),
    ({"no_optimizer": True, "out": None, "learning_rate": None, "max_grad_norm": 1}, ("--max-grad-norm",)),
    ({"no_optimizer": True, "out": None, "learning_rate": None, "optimizer_states": "host"}, ("--optimizer-states",)),
    ({"keep": "none", "kept_pages": 5}, ("--kept-pages 5", "--keep none")),
    ({"trace": "same", "dump_gradients": "./same"}, ("--trace and --dump-gradients", "same")),
    ({"steps": "many"}, ("--steps", '"many"', "whole number")),
    ({"steps": "1.5"}, ("--steps", '"1.5"')),
    ({"threads": 99999999999}, ("--threads", "99999999999")),
    ({"steps": "1" + "0" * 30}, ("--steps", '"10000')),
    ({"seed": -1}, ("--seed", '"-1"')),
    ({"seed": 10**20}, ("--seed", '"100000')),
    ({"learning_rate": "fast"}, ("--learning-rate", '"fast"', "a number")),
    ({"schedule": "cosin"}, ("--schedule", "did you mean cosine?")),
    ({"metrics": ""}, ("--metrics needs a value",)),
    ({"warm_up_steps": 1}, ("--warm-up-steps is no flag", "did you mean --warmup-steps?")),
], ids=lambda value: "-".join(value) if isinstance(value, dict) else "")
def test_wrong_usage(trainer, model, data, flags, words):
    flags = {"data": data, **flags}
    run = trainer(model, flags.pop("data"), CONTEXT, dry_run=True, **flags)
    assert run.returncode == 2 and all(word in run.output for word in words), run.output
    assert run.output.count("\n") == 1


def test_numbers_beyond_what_there_is_are_noted(trainer, model, data):
    run = trainer(model, data, CONTEXT, dry_run=True, offload="host", hbm_pages=100000, held_chunks=500).check()
    assert "note: --hbm-pages 100000: there are 10 K/V pages" in run.output
    assert "note: --held-chunks 500: there are 3 chunks" in run.output


def test_the_time_of_a_machine_that_is_named(program):
    """On this machine there may be no GPU."""
    command = [program("oomb-train"), "--model", ROOT / "models/qwen2.5-7b.json", "--synthetic", "--device", "cuda",
               "--context", "32K", "--offload", "host", "--dry-run"]
    named = subprocess.run([*command, "--hardware", "h200_sxm"], capture_output=True, text=True)
    assert named.returncode == 0 and "time of a step" in named.stdout and "NVIDIA H200 SXM" in named.stdout
    several = subprocess.run([*command, "--hardware", "h200_sxm", "--gradient-accumulation", "4"], capture_output=True,
                             text=True)
    assert "with --gradient-accumulation 4: " in several.stdout
    unnamed = subprocess.run(command, capture_output=True, text=True)
    assert unnamed.returncode == 0, unnamed.stderr
    assert "tokens/s" in unnamed.stdout or "not predicted" in unnamed.stdout and "--hardware h100_sxm" in unnamed.stdout


def printed_commands(text):
    return re.findall(r"^(?:[^\n]*: )?(oomb-train .*)$", text, re.MULTILINE)


@pytest.fixture
def accepted(program):
    """Carries out a command of oomb-plan as a dry run on random tokens."""

    def call(command):
        words = shlex.split(command)
        assert words[0] == "oomb-train" and words[-2:] == ["--data", "DATA"], command
        result = subprocess.run([program("oomb-train"), *words[1:-2], "--synthetic", "--dry-run"], capture_output=True,
                                text=True)
        assert result.returncode == 0, (command, result.stderr)
        return result.stdout

    return call


@pytest.fixture
def plan(program, tmp_path):
    def call(*arguments):
        path = tmp_path / "plan.json"
        result = subprocess.run([program("oomb-plan"), *map(str, arguments), "--json", path], capture_output=True,
                                text=True)
        assert result.returncode in (0, 3), (arguments, result.stderr)
        return result.stdout, json.loads(path.read_text()) if result.returncode == 0 else None

    return call


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
@pytest.mark.parametrize("context", ["8K", "100000"])
def test_fit_prints_a_command_with_the_same_peaks(plan, accepted, path, context):
    for flags in (["--offload", "host", "--chunk", "8K"], ["--no-optimizer", "--keep", "o", "--kept-pages", "40"],
                  ["--offload", "host", "--keep", "auto", "--held-chunks", "auto", "--kept-pages", "auto"],
                  ["--hardware", "h100_sxm", "--offload", "host", "--hbm-pages", "ring", "--gradient-dtype", "bf16"]):
        text, file = plan("fit", "--model", path, "--context", context, *flags)
        if file is not None:
            command, = printed_commands(text)
            assert peaks(accepted(command)) == peaks(text)


@pytest.mark.parametrize("arguments, fewest", [
    (["best", "--context", "16K", "--search-types"], 4),
    (["best", "--context", "32K", "--no-optimizer", "--gpu-memory", "80GiB"], 4),
    (["best", "--context", "16K", "--kept-pages", "56"], 4),
    (["max-context", "--chunk", "32K", "--window", "64K"], 3),
    (["sweep", "--context", "8K,16K,64K", "--chunk", "4K,8K", "--offload", "host", "--keep", "o", "--kept-pages", "auto"], 6),
], ids=lambda value: value[0] if isinstance(value, list) else "")
def test_every_command_is_accepted(plan, accepted, arguments, fewest):
    text, file = plan(arguments[0], "--model", ROOT / "models/qwen2.5-7b.json", *arguments[1:])
    commands = set(printed_commands(text))
    assert commands

    def gather(node):
        if isinstance(node, dict):
            commands.update([node["command"]] if isinstance(node.get("command"), str) else [])
            node = list(node.values())
        for inner in node if isinstance(node, list) else []:
            gather(inner)

    gather(file)
    assert len(commands) >= fewest
    for command in commands:
        accepted(command)
