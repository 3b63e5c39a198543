"""oomb-profile compare, and report --trace, on a simulated step: runs of it on slower machines, and their recordings."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from recordings import ROOT, read_trace, seeds, stretched, write_recording, write_trace

BIN = Path(os.environ.get("OOMB_BIN") or ROOT / "build/bin")
RUN = {"--context": "8K", "--chunk": "2K", "--window": "2K", "--offload": "host", "--hbm-pages": "ring", "--keep": "x"}
FACTORS = (1.5, 1.25, 1.2, 1.3)  # of the steps of a run; the first warms up, 1.25 is the median of the others
GAP = 1_000_000_000


def profile(*words):
    return subprocess.run([BIN / "oomb-profile", *words], capture_output=True, text=True, timeout=120)


def found(*words):
    done = profile(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def predict(file, **changed):
    run = {**RUN, **{f"--{name}": value for name, value in changed.items()}}
    words = [word for flag in run.items() for word in flag]
    subprocess.run([BIN / "oomb-plan", "timeline", "--model", ROOT / "models/smollm2-135m.json", *words, "--trace", file],
                   check=True, capture_output=True, timeout=120)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """step.plan; run.trace, run.profile: four steps; copies in the recording take a tenth less than in the trace."""
    folder = tmp_path_factory.mktemp("compare")
    predict(folder / "step.plan")
    header, (step,) = read_trace(folder / "step.plan")
    length = max(begin + duration for _, _, begin, duration, _, _ in step)
    steps = [stretched(step, factor, number * (2 * length + GAP)) for number, factor in enumerate(FACTORS)]
    write_trace(folder / "run.trace", {**header, "clock": "steady", "device": "NVIDIA H200"}, steps)
    faster = [[[name, engine, begin, duration if engine == 0 else round(0.9 * duration), size, pages]
               for name, engine, begin, duration, size, pages in step] for step in steps]
    write_recording(folder / "run.profile", faster)
    return folder


def test_predicted_traced_and_recorded(folder):
    files = ("--plan", folder / "step.plan", "--trace", folder / "run.trace", "--profile", folder / "run.profile")
    json_ = json.loads(found("compare", *files, "--json"))
    assert json_["notes"] == []
    assert "step 2, of median length of 3 from 2 to 4" in json_["sources"]["events"]
    # The step's last operation is compute's, so that copies do not make it shorter.
    assert json_["step"]["errors"] == pytest.approx({"predicted": 1 / 1.25 - 1, "events": 0}, abs=1e-6)
    assert json_["missing"] == {"predicted": {}, "events": {}, "cupti": {}}
    assert json_["kinds"]["attention"]["errors"] == pytest.approx({"predicted": -0.2, "events": 0}, abs=1e-4)
    assert json_["kinds"]["fetch"]["errors"] == pytest.approx({"predicted": 1 / (1.25 * 0.9) - 1, "events": 1 / 0.9 - 1}, abs=1e-4)
    for direction in ("host_to_device", "device_to_host"):
        sizes = {json_["step"][source][direction]["bytes"] for source in ("predicted", "events", "cupti")}
        assert len(sizes) == 1 and sizes.pop() > 0
        shares = [json_["step"][source][direction]["hidden_share"] for source in ("predicted", "events", "cupti")]
        assert shares[0] == pytest.approx(shares[1], abs=1e-3)  # rounding to nanoseconds
        assert all(0 < share <= 1 for share in shares)
    assert json_["without_device_work"] > 0  # releases
    text = found("compare", *files, "--rows", "2")
    for part in ("predicted by", "events by", "-20.0 %", "phase backward", "those that differ most", "host to device"):
        assert part in text, text


def test_two_of_three_and_a_step_by_its_number(folder):
    plan, trace, recording = (folder / name for name in ("step.plan", "run.trace", "run.profile"))
    json_ = json.loads(found("compare", "--plan", plan, "--profile", recording, "--step", "1", "--json"))
    assert json_["step"]["errors"] == pytest.approx({"predicted": 1 / 1.5 - 1}, abs=1e-6)
    json_ = json.loads(found("compare", "--plan", plan, "--trace", trace, "--step", "4", "--json"))
    assert json_["step"]["errors"] == pytest.approx({"predicted": 1 / 1.3 - 1}, abs=1e-6)
    assert json_["kinds"]["release"]["operations"] > 0
    done = profile("compare", "--plan", plan, "--trace", trace, "--step", "5")
    assert done.returncode == 1
    assert "has no step 5" in done.stderr and "1 to 4" in done.stderr


def test_another_plan(folder, tmp_path):
    """Other settings are named, what both have is compared; another model is refused."""
    predict(tmp_path / "other.plan", window="4K")
    json_ = json.loads(found("compare", "--plan", tmp_path / "other.plan", "--trace", folder / "run.trace", "--json"))
    assert "run.window_tokens: 4096 and 2048" in json_["notes"][0]
    assert any("lacks" in note for note in json_["notes"])
    header, steps = read_trace(folder / "run.trace")
    header["plan"]["model"]["layers"] = 31
    write_trace(tmp_path / "model.trace", header, steps)
    done = profile("compare", "--plan", folder / "step.plan", "--trace", tmp_path / "model.trace")
    assert done.returncode == 1
    assert "model.layers: 30 and 31" in done.stderr


def test_files_of_other_runs_and_programs(folder, tmp_path):
    seeds.write_profile(tmp_path / "seed.profile")
    done = profile("compare", "--trace", folder / "run.trace", "--profile", tmp_path / "seed.profile")
    assert done.returncode == 1
    assert "no operation in common" in done.stderr
    write_recording(tmp_path / "none.profile", [])
    done = profile("compare", "--trace", folder / "run.trace", "--profile", tmp_path / "none.profile")
    assert done.returncode == 1
    assert "no work in it is attributed to operations" in done.stderr
    (tmp_path / "plan.json").write_text('{"format": "oomb-plan"}\n')
    done = profile("compare", "--trace", folder / "run.trace", "--plan", tmp_path / "plan.json")
    assert done.returncode == 1
    assert "oomb-plan timeline" in done.stderr


def test_what_is_missing_is_said_and_the_rest_is_compared(folder, tmp_path):
    header, steps = read_trace(folder / "run.trace")
    write_recording(tmp_path / "part.profile", [[operation for operation in step if operation[1] != 1] for step in steps[:3]],
                    device="another GPU")
    json_ = json.loads(found("compare", "--trace", folder / "run.trace", "--profile", tmp_path / "part.profile", "--json"))
    notes = "\n".join(json_["notes"])
    for part in ("has 4 steps and", "ran on NVIDIA H200", "CUPTI: lacks", "fetch "):
        assert part in notes, notes
    assert json_["kinds"]["attention"]["errors"] == {"events": 0}
    assert "fetch" not in json_["kinds"]


def test_two_recordings(folder, tmp_path):
    header, steps = read_trace(folder / "run.trace")
    write_recording(tmp_path / "slow.profile", [stretched(step, 2) for step in steps])
    json_ = json.loads(found("compare", folder / "run.profile", tmp_path / "slow.profile", "--json"))
    (kernel,) = json_["kernels"]
    assert kernel["before"]["count"] == kernel["after"]["count"]
    assert kernel["difference_ns"] == pytest.approx(kernel["before"]["total_ns"], rel=1e-3)
    text = found("compare", folder / "run.profile", tmp_path / "slow.profile")
    for part in ("before", "+100.0 %", "attention", "copies that nothing hides", "host to device"):
        assert part in text, text


def test_the_critical_path_of_a_step(folder):
    """All of it is explained; of a small model much by the host, whose submissions the recording does not have."""
    words = ("report", folder / "run.profile", "--trace", folder / "run.trace", "--step", "2")
    path = json.loads(found(*words, "--json"))["critical_path"]
    on_engines = sum(part["ns"] for kinds in path["engines"].values() for part in kinds.values())
    rest = path["within_operations_ns"] + path["host_ns"] + path["launch_ns"] + path["unexplained_ns"]
    assert on_engines + rest == path["step_ns"]
    assert path["host_ns"] == path["launch_ns"] == 0 < path["unexplained_ns"]
    assert path["engines"]["compute"]["attention"]["ns"] > 0
    assert path["waits"] and all(wait["length_ns"] == wait["for_ns"] + wait["unexplained_ns"] for wait in path["waits"])
    text = found(*words)
    for part in ("critical path of step 2", "attention_backward", "longest waits of the compute engine", "chunk 3"):
        assert part in text, text


def test_no_critical_path_of_another_run(folder, tmp_path):
    predict(tmp_path / "other.plan", chunk="1K")
    done = profile("report", folder / "run.profile", "--trace", tmp_path / "other.plan", "--step", "1")
    assert done.returncode == 1
    assert "not of the same run" in done.stderr
