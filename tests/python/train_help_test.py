"""What oomb-train says of itself, compared with tests/golden/oomb-train-help.txt and oomb-train-eval-help.txt. After a
change that is meant:
    build/bin/oomb-train --help > tests/golden/oomb-train-help.txt
    build/bin/oomb-train eval --help > tests/golden/oomb-train-eval-help.txt
"""

import subprocess
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def call(program, *arguments):
    return subprocess.run([program("oomb-train"), *arguments], capture_output=True, text=True)


def test_help(program):
    result = call(program, "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == (GOLDEN / "oomb-train-help.txt").read_text()


def test_help_of_eval(program):
    result = call(program, "eval", "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == (GOLDEN / "oomb-train-eval-help.txt").read_text()
    assert all(len(line) <= 119 for line in result.stdout.splitlines())


def test_version(program):
    lines = call(program, "--version").stdout.splitlines()
    assert lines[0].startswith("oomb-train ")
    assert [line.split()[0] for line in lines[1:]] == ["commit", "CUDA", "LibTorch"]


def test_a_wrong_flag_is_one_line_and_a_hint(program):
    result = call(program, "--contxt", "128K")
    assert (result.returncode, result.stdout) == (2, "")
    assert "--help" in result.stderr and "Traceback" not in result.stderr
