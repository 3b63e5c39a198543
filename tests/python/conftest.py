"""Fixtures of the Python tests: the programs under test, the model folders they read, the token files they train on.

OOMB_BIN       folder of the programs, which must be there; without it build/bin, and absent programs skip their tests
OOMB_SMOLLM2   an existing SmolLM2 folder; without it tools/make_smollm2.py makes one in OOMB_HOME (~/.cache/oomb)
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools"
sys.path.append(str(TOOLS))  # last: tools/tokenize.py must not hide the standard library's

from make_tiny_model import save_tiny_model  # noqa: E402
from support import CONTEXT, SequenceFile, Trainer  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes more than a few seconds")


@pytest.fixture(scope="session")
def run_tool():
    def run(name, *arguments, **environment):
        command = [sys.executable, str(TOOLS / name), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})

    return run


@pytest.fixture(scope="session")
def smollm2(run_tool):
    """Folder of the real model."""
    given = os.environ.get("OOMB_SMOLLM2")
    if given:
        return Path(given)
    home = Path(os.environ.get("OOMB_HOME") or Path.home() / ".cache" / "oomb")
    folder = home / "smollm2-135m"
    result = run_tool("make_smollm2.py", "--out", folder)
    if result.returncode == 4:
        pytest.skip(f"SmolLM2 cannot be had: {result.stderr.strip().splitlines()[-1]}")
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture(scope="session")
def real_text():
    """A text of about 100 kB that is on every machine with Python."""
    return Path(argparse.__file__)


@pytest.fixture(scope="session")
def smollm2_tokens(smollm2, real_text, run_tool, tmp_path_factory):
    """Token ids of `real_text`, tokenised by tools/tokenize.py."""
    out = tmp_path_factory.mktemp("tokens") / "argparse.npy"
    result = run_tool("tokenize.py", "--model", smollm2, "--out", out, real_text)
    assert result.returncode == 0, result.stderr
    return numpy.load(out)


@pytest.fixture
def sequence_file(tmp_path):
    """Makes token files that hold exactly one training sequence."""
    return SequenceFile(tmp_path)


@pytest.fixture
def model(tmp_path):
    """A tiny model's folder."""
    save_tiny_model(tmp_path / "model", "qwen3")
    return tmp_path / "model"


@pytest.fixture
def data(sequence_file):
    """A token file of one sequence of CONTEXT tokens."""
    return sequence_file.random(CONTEXT)[0]


@pytest.fixture(scope="session")
def program():
    """Path of a program by its name."""

    def find(name):
        folder = os.environ.get("OOMB_BIN")
        path = Path(folder or ROOT / "build" / "bin") / name
        if not path.is_file():
            (pytest.fail if folder else pytest.skip)(f"{path} is not built")
        return path

    return find


@pytest.fixture
def trainer(program, tmp_path):
    return Trainer(program("oomb-train"), tmp_path)
