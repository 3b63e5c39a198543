"""oomb-plan from outside: exit codes, JSON, what it says when a model does not fit."""

import json
import subprocess

import pytest

from make_tiny_model import save_tiny_model


@pytest.fixture
def plan(program, tmp_path):
    save_tiny_model(tmp_path / "model", "llama")

    def run(*arguments, model=tmp_path / "model"):
        command = [program("oomb-plan"), "--model", model, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True)

    return run


def test_fits(plan, tmp_path):
    result = plan("--context", "4K", "--chunk", 1024, "--json", tmp_path / "plan.json")
    assert result.returncode == 0, result.stderr
    assert "4,096" in result.stdout or "4096" in result.stdout
    assert json.loads((tmp_path / "plan.json").read_text())


def test_does_not_fit(plan):
    result = plan("--context", "1M", "--chunk", 1024, "--gpu-memory", "64MiB", "--host-memory", "1GiB")
    assert result.returncode == 3
    assert "64" in result.stdout + result.stderr


@pytest.mark.parametrize("arguments", [(), ("--context", 0), ("--context", "4K", "--gpu-memory", "lots"),
                                       ("--context", "4K", "--no-such-flag")])
def test_wrong_usage(plan, arguments):
    assert plan(*arguments).returncode == 2


def test_an_absent_model(plan, tmp_path):
    result = plan("--context", "4K", model=tmp_path / "absent")
    assert result.returncode == 1 and "absent" in result.stderr
