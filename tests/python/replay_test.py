"""oomb-plan replay over runs that oomb-train recorded on the CPU."""

import json
import subprocess

import pytest

from support import CONTEXT

TRAVELLING = {"offload": "host", "hbm_pages": "ring", "window": 8, "chunk": 8}
# One thread carries out one operation after the other, so nothing but rounding to nanoseconds is left. The bar of a
# replay is 3 %, which would hide an engine that is modelled wrongly.
ALLOWED = 1e-3


@pytest.fixture
def replay(program, tmp_path):
    def run(trace, *flags, code=0):
        out = tmp_path / "replay.json"
        command = [program("oomb-plan"), "replay", "--trace", trace, "--json", out, *map(str, flags)]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == code, result.stderr
        return json.loads(out.read_text()) if code == 0 else result.stderr

    return run


def phases_differ(found, expected):
    return max(abs(found["seconds"][name] - expected["seconds"][name]) for name in expected["seconds"])


@pytest.mark.parametrize("flags", [{}, TRAVELLING, {**TRAVELLING, "keep": "xo", "optimizer_states": "host"},
                                   {**TRAVELLING, "gradient_accumulation": 3, "keep": "auto"},
                                   {"dtype": "bf16", "no_optimizer": True, "learning_rate": None, "out": None, "held_chunks": "all"}])
def test_a_recorded_run_replays(trainer, replay, model, sequence_file, tmp_path, flags):
    data = sequence_file.random(4 * CONTEXT)[0]
    trainer(model, data, CONTEXT, steps=4, trace=tmp_path / "trace", **flags).check()
    found = replay(tmp_path / "trace")
    assert found["median_of"]["first"] == 2 and found["median_of"]["last"] == 4
    assert found["median_of"]["least_seconds"] <= found["recorded"]["seconds"]["total"] <= found["median_of"]["most_seconds"]
    assert abs(found["error"]) < ALLOWED
    seconds = found["recorded"]["seconds"]["total"]
    assert phases_differ(found["replayed"], found["recorded"]) < ALLOWED * seconds
    for direction in ("host_to_device", "device_to_host"):
        assert found["replayed"]["copies"][direction]["bytes"] == found["recorded"]["copies"][direction]["bytes"]
    assert abs(replay(tmp_path / "trace", "--step", 1)["error"]) < ALLOWED


def test_a_change_is_carried_through(trainer, replay, model, data, tmp_path):
    trainer(model, data, CONTEXT, steps=3, trace=tmp_path / "trace", **TRAVELLING).check()
    larger = replay(tmp_path / "trace", "--window", 16)["changed"]
    # What the run with these flags moves is what the replay says.
    trainer(model, data, CONTEXT, steps=2, trace=tmp_path / "other", **{**TRAVELLING, "window": 16}).check()
    ran = replay(tmp_path / "other")["recorded"]
    for direction in ("host_to_device", "device_to_host"):
        assert larger["copies"][direction]["bytes"] == ran["copies"][direction]["bytes"]
    slow = replay(tmp_path / "trace", "--host-to-device", 0.001)["changed"]
    moved = slow["copies"]["host_to_device"]["bytes"]
    assert slow["seconds"]["total"] > moved / 1e6


def test_a_killed_run_and_a_foreign_one(trainer, replay, model, data, tmp_path):
    trainer(model, data, CONTEXT, steps=2, trace=tmp_path / "trace").check()
    text = (tmp_path / "trace").read_text()
    (tmp_path / "cut").write_text(text[:-100])
    found = replay(tmp_path / "cut")
    assert found["step"] == 1 and len(found["notes"]) == 2
    (tmp_path / "short").write_text(text[:len(text) // 4])
    assert "cut off" in replay(tmp_path / "short", code=1)
    lines = text.split("\n")
    lines[10], lines[11] = lines[11], lines[10]
    (tmp_path / "swapped").write_text("\n".join(lines))
    assert "out of order" in replay(tmp_path / "swapped", "--step", 1, code=1)


def test_top_k_pages_are_refused(trainer, replay, model, data, tmp_path):
    trainer(model, data, CONTEXT, attention="topk", top_k=1, chunk=8, trace=tmp_path / "trace").check()
    assert "topk" in replay(tmp_path / "trace", code=1)
