"""The trace that --trace writes, read as docs/trace-format.md says, by no code of ours."""

import json
import signal

import pytest

from support import CONTEXT, TERMINATE


def read(path):
    """Header, operations by step, and what is left behind the last newline."""
    lines = path.read_text().split("\n")
    steps = {}
    for line in map(json.loads, lines[1:-1]):
        if isinstance(line, dict) and "lists" in line:
            continue
        if isinstance(line, dict):
            operations = steps[line["step"]] = []
        else:
            operations.append(line)
    return json.loads(lines[0]), steps, lines[-1]


def kind_of(header, operation):
    return header["kinds"][int(operation[0], 16) >> 19 & 63]


def test_a_run(trainer, model, data, tmp_path):
    travelling = {"offload": "host", "hbm_pages": "ring", "window": 8, "chunk": 8}
    run = trainer(model, data, CONTEXT, steps=2, trace=tmp_path / "trace", **travelling).check()
    header, steps, rest = read(tmp_path / "trace")
    assert (header["format"], header["version"], header["device"]) == ("oomb-trace", 2, "cpu") and rest == ""
    assert header["plan"] == json.loads((run.out / "run.json").read_text())["plan"]
    assert list(steps) == [1, 2]
    # The same operations in every step, each once; bytes move on the engines that copy and nowhere else.
    ids = [[operation[0] for operation in steps[step]] for step in steps]
    assert sorted(ids[0]) == sorted(ids[1]) and len(set(ids[0])) == len(ids[0])
    assert {kind_of(header, operation) for operation in steps[1]} >= {"fetch", "write_back", "attention", "optimizer"}
    for operations in steps.values():
        for _, engine, begin, duration, moved, _ in operations:
            assert begin > 0 and duration >= 0
            assert (moved > 0) == (header["engines"][engine] in ("host_to_device", "device_to_host"))


@pytest.mark.parametrize("number", [signal.SIGKILL, TERMINATE])
def test_an_ended_run_leaves_a_readable_file(trainer, model, data, tmp_path, number):
    run = trainer.interrupted(model, data, CONTEXT, number, after_steps=3, steps=1000000, trace=tmp_path / "trace")
    assert run.returncode == (0 if number == TERMINATE else -9), run.output
    _, steps, _ = read(tmp_path / "trace")
    assert len(steps) >= 3
    assert len({len(operations) for step, operations in steps.items() if step < max(steps)}) == 1


def test_an_existing_file_is_kept_and_nothing_else_is_made(trainer, model, data, tmp_path):
    (tmp_path / "trace").write_text("mine")
    run = trainer(model, data, CONTEXT, trace=tmp_path / "trace")
    assert run.returncode == 1 and str(tmp_path / "trace") in run.output
    assert (tmp_path / "trace").read_text() == "mine"
    assert not (run.out.parent / "metrics.jsonl").exists()
