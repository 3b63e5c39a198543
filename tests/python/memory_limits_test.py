"""bench/memory_limits.py: what fits by the planner's word runs, and what does not is refused before it starts."""

import json
import subprocess
import sys

import pytest

from conftest import ROOT

SETTINGS = 30


def limits(bin_folder, out, settings, jobs):
    command = [sys.executable, ROOT / "bench/memory_limits.py", "--bin", bin_folder, "--device", "cpu", "--out", out,
               "--settings", str(settings), "--jobs", str(jobs)]
    return subprocess.run(command, capture_output=True, text=True)


def test_settings_at_their_limits(program, tmp_path):
    done = limits(program("oomb-train").parent, tmp_path / "limits", SETTINGS, jobs=2)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "limits.json").read_text())["rows"]
    assert len(rows) == SETTINGS
    dense = [row for row in rows if "top-k" not in row["flags"]]
    assert len(dense) >= 15
    for row in dense:
        assert {tier: row["observed"][tier] for tier in ("hbm", "host")} == row["arenas"]


@pytest.mark.parametrize("trainer, complaint", [
    ("exit 1", "fits, and fails: exit 1"),  # breaks where it should run
    ('shift 6; exec {program} --model "$model" --gpu-memory 1TiB --host-memory 1TiB "$@"', "instead of 3"),  # knows no budget
])
def test_what_is_wrong_is_noticed(program, tmp_path, trainer, complaint):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/oomb-plan").symlink_to(program("oomb-plan"))
    stand_in = tmp_path / "bin/oomb-train"
    stand_in.write_text("#!/bin/sh\nmodel=$2\n" + trainer.format(program=program("oomb-train")) + "\n")
    stand_in.chmod(0o755)
    done = limits(tmp_path / "bin", tmp_path / "limits", settings=1, jobs=1)
    assert done.returncode == 1 and complaint in done.stdout, done.stdout + done.stderr
