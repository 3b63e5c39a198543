"""oomb-plan stays fast: whole calls within some times their goals, whatever else the machine does."""

import json
import subprocess
import sys

from conftest import ROOT

SCRIPT = ROOT / "bench/planner_speed.py"


def test_goals(program):
    result = subprocess.run([sys.executable, SCRIPT, program("oomb-plan"), "--check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_page_says_what_is_missed(tmp_path):
    calls = [{"what": what, "goal_seconds": 2.0, "user_seconds": seconds, "clock_seconds": 9.0, "peak_mb": mb, "repeats": 5}
             for what, seconds, mb in (("slow", 2.001, 15.0), ("large", 1.0, 201.0), ("good", 2.0, 200.0))]
    calls.append({**calls[0], "what": "threads", "user_seconds": 3.5, "clock_seconds": 1.9})
    report = {"commit": "abc", "date": "2026-12-01", "cores": 2, "load": 0.1, "calls": calls}

    def page_of(calls):
        (tmp_path / "page.json").write_text(json.dumps({**report, "calls": calls}))
        subprocess.run([sys.executable, SCRIPT, "unused", tmp_path / "page", "--page"], check=True)
        return (tmp_path / "page.md").read_text()

    text = page_of(calls)
    assert "**Missed:** slow (2.001 s of 2 s); large (201 MB of 200 MB)." in text
    rows = {line.split(" | ")[0]: line for line in text.splitlines() if line.startswith("| ")}
    assert rows["| slow"].endswith("| **missed** |") and rows["| large"].endswith("| **missed** |") and rows["| good"].endswith("| met |") and rows["| threads"].endswith("| met |")
    assert "All are met." in page_of(calls[2:])
