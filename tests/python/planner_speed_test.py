"""oomb-plan stays fast: whole calls within some times their goals, whatever else the machine does."""

import subprocess
import sys

from conftest import ROOT


def test_goals(program):
    result = subprocess.run([sys.executable, ROOT / "bench/planner_speed.py", program("oomb-plan"), "--check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
