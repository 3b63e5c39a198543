"""oomb-profile from outside: help, refusals, and `run` of programs that use no GPU."""

import contextlib
import json
import os
import re
import sqlite3
import subprocess
from pathlib import Path

import pytest

from recordings import COPY, KERNEL, ROOT, STRING, Block, seeds, write_block

BIN = Path(os.environ.get("OOMB_BIN") or ROOT / "build/bin")
needs_recorder = pytest.mark.skipif(not (BIN / "liboomb-profile-injection.so").exists(), reason="built without CUDA")


def profile(*words, **more):
    return subprocess.run([BIN / "oomb-profile", *words], capture_output=True, text=True, timeout=60, **more)


def test_help_of_all_commands():
    for words in ([], ["run"], ["report"], ["compare"]):
        done = profile(*words, "--help")
        assert done.returncode == 0, done.stderr
        assert "Exit code" in done.stdout


@pytest.mark.parametrize("words, found", [([], "COMMAND"), (["paint"], '"paint"'), (["run"], "COMMAND"), (["report"], "FILE"),
                                          (["report", "x", "--rows", "0"], "--rows"), (["report", "x", "--step", "1"], "--trace"),
                                          (["compare"], "two of --plan, --trace and --profile"), (["compare", "a"], "found one recording"),
                                          (["compare", "a", "b", "--trace", "c"], "leave --plan"),
                                          (["compare", "--plan", "a"], "found 1"),
                                          (["run", "--steps", "3:2", "--", "true"], '--steps: found "3:2"'),
                                          (["run", "--steps", "2", "--seconds", "1", "--", "true"], "leave one out"),
                                          (["run", "--seconds", "0", "--", "true"], "--seconds: found 0"),
                                          (["run", "--start-after", "-1", "--", "true"], "--start-after: found -1"),
                                          (["run", "--step-range", "step", "--", "true"], "without --steps")])
def test_wrong_usage_is_code_2(words, found):
    done = profile(*words)
    assert done.returncode == 2
    assert found in done.stderr


def test_files_that_are_no_profile(tmp_path):
    for content, found in ((None, "cannot be opened"), (b"", "is empty"), (b'{"format": "oomb-trace"}', "is no profile")):
        file = tmp_path / "x.profile"
        if content is not None:
            file.write_bytes(content)
        done = profile("report", file)
        assert done.returncode == 1
        assert found in done.stderr and str(file) in done.stderr


def test_a_seed_of_the_fuzzer_is_shown(tmp_path):
    for version in (1, 2):
        file = tmp_path / f"seed-{version}.profile"
        seeds.write_profile(file, version=version)
        done = profile("report", file, "--chrome", tmp_path / "seed.json")
        assert done.returncode == 0, done.stderr
        for text in ("1 kernels, 1 memsets", "host to device", "recorder: name", "1 records were dropped", "2 bytes of CUPTI"):
            assert text in done.stdout, done.stdout
        assert "cut off" not in done.stdout
        assert '"traceEvents"' in (tmp_path / "seed.json").read_text()
        numbers = json.loads(profile("report", file, "--json").stdout)
        assert [len(numbers[kind]) for kind in ("calls", "counters")] == [version - 1] * 2


def test_the_same_as_a_database(tmp_path):
    """The queries of docs/profile-sqlite.md, on the fuzzer's seed: kernel and copy of 1000 ns each."""
    file, out = tmp_path / "seed.profile", tmp_path / "seed.sqlite"
    seeds.write_profile(file)
    done = profile("report", file, "--sqlite", out)
    assert done.returncode == 0, done.stderr
    assert f"wrote {out}" in done.stderr
    queries = re.findall(r"^    SELECT.*?;$", (ROOT / "docs/profile-sqlite.md").read_text(), re.DOTALL | re.MULTILINE)
    with contextlib.closing(sqlite3.connect(out)) as database:
        found = [database.execute(query).fetchall() for query in queries]
        assert found[0] == [("name", 1, 0.001)]
        assert found[1] == [("Host-to-Device", 1, 4096, 4.096)]
        assert found[2] == []  # the seed's operation is of another phase
        assert database.execute("SELECT printf('%016x', operation), phase, kind, layer FROM OOMB_OPERATIONS").fetchall() == [
            ("0000000000300000", "fill", kind_of(0x300000), 0)]
        assert database.execute("SELECT start, end, streamId FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchall() == [(999, 1999, 7)]
    assert profile("report", file, "--sqlite", out).returncode == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed.profile", "seed.sqlite"]


def test_records_differ_from_the_last_of_their_own_kind(tmp_path):
    """A kernel has the most fields of all, the last of them its node in a graph; what follows it in memory is another kind's."""
    file, out = tmp_path / "x.profile", tmp_path / "x.sqlite"
    block = Block()
    block.add(STRING, 1, text="kernel")
    for begin, node in ((1000, 0), (2000, 7), (3000, 8)):
        block.add(COPY, begin + 500, begin + 600, 0, 1, 8, begin, 1, 2, 3, 64, 1, node)
        block.add(KERNEL, begin, begin + 100, 0, 1, 7, begin, 1, *[1] * 9, node)
    write_block(file, block)
    assert profile("report", file, "--sqlite", out).returncode == 0
    with contextlib.closing(sqlite3.connect(out)) as database:
        for table, late in (("KERNEL", 0), ("MEMCPY", 500)):
            rows = database.execute(f"SELECT start, graphNodeId FROM CUPTI_ACTIVITY_KIND_{table}").fetchall()
            assert rows == [(999 + late, None), (1999 + late, 7), (2999 + late, 8)]


def kind_of(operation):
    return seeds.kinds()[operation >> 19 & 0x3F]


def test_a_database_that_cannot_be_written(tmp_path):
    file, taken = tmp_path / "seed.profile", tmp_path / "taken"
    seeds.write_profile(file)
    taken.write_text("mine")
    for out, said in ((taken, "exists already"), (tmp_path / "nowhere" / "x", "No such file or directory")):
        done = profile("report", file, "--sqlite", out)
        assert done.returncode == 1
        assert str(out) in done.stderr and said in done.stderr
    assert taken.read_text() == "mine"


@needs_recorder
def test_a_program_that_never_touches_cuda(tmp_path):
    done = profile("run", "--out", tmp_path / "x.profile", "--", "true")
    assert done.returncode == 1
    assert "true ended without touching CUDA" in done.stderr


@needs_recorder
def test_the_exit_code_is_that_of_the_command(tmp_path):
    out = ("--out", tmp_path / "x.profile", "--")
    assert profile("run", *out, "sh", "-c", "exit 7").returncode == 7
    assert profile("run", *out, "sh", "-c", "kill -9 $$").returncode == 137
    missing = profile("run", *out, "no-such-program-here")
    assert missing.returncode == 127
    assert "no such program" in missing.stderr


@needs_recorder
def test_the_recorder_is_named_in_the_programs_environment(tmp_path):
    done = profile("run", "--operations", "--api", "--steps", "2:3", "--step-range", "a step", "--out", tmp_path / "x.profile",
                   "--", "env")
    words = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert Path(words["CUDA_INJECTION64_PATH"]).name == "liboomb-profile-injection.so"
    assert "libcupti.so" in words["NVTX_INJECTION64_PATH"]
    assert words["OOMB_PROFILE_OUT"] == str(tmp_path / "x.profile")
    for name, value in (("OPERATIONS", "1"), ("API", "1"), ("STEPS", "2:3"), ("STEP_RANGE", "a step"), ("SECONDS", "")):
        assert words[f"OOMB_PROFILE_{name}"] == value
    done = profile("run", "--seconds", "1.5", "--start-after", "2", "--out", tmp_path / "x.profile", "--", "env")
    words = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert (words["OOMB_PROFILE_SECONDS"], words["OOMB_PROFILE_START_AFTER"]) == ("1.5", "2")


@needs_recorder
def test_counters_are_put_into_the_recording_or_a_note_says_why_not(tmp_path):
    """The program writes its recording as the recorder would: here a seed of the fuzzer."""
    seed, out = tmp_path / "seed.profile", tmp_path / "x.profile"
    seeds.write_profile(seed)
    before = json.loads(profile("report", seed, "--json").stdout)
    done = profile("run", "--counters", "--out", out, "--", "sh", "-c", f'test -e {out}.counters && cp {seed} "$OOMB_PROFILE_OUT"')
    assert done.returncode == 0, done.stderr
    after = json.loads(profile("report", out, "--json").stdout)
    assert after["kernels"] == before["kernels"]
    assert len(after["counters"]) > len(before["counters"]) or "counters are not sampled" in done.stderr
    assert sorted(file.name for file in tmp_path.iterdir()) == ["seed.profile", "x.profile"]


@needs_recorder
def test_counters_of_a_program_that_never_touches_cuda_leave_no_file(tmp_path):
    done = profile("run", "--counters", "--out", tmp_path / "x.profile", "--", "true")
    assert done.returncode == 1
    assert "without touching CUDA" in done.stderr
    assert profile("run", "--counters", "--out", tmp_path / "x.profile", "--", "sh", "-c", "exit 7").returncode == 7
    assert not list(tmp_path.iterdir())


@needs_recorder
def test_counters_that_a_recording_cannot_take_are_left_beside_it(tmp_path):
    out = tmp_path / "x.profile"
    done = profile("run", "--counters", "--out", out, "--", "sh", "-c", 'echo no profile >"$OOMB_PROFILE_OUT"')
    assert f"counters are left in {out}.counters" in done.stderr
    assert profile("report", f"{out}.counters").returncode == 0
    out.unlink()
    again = profile("run", "--counters", "--out", out, "--", "touch", tmp_path / "ran")
    assert again.returncode == 1
    assert f"{out}.counters: exists already" in again.stderr
    assert not (tmp_path / "ran").exists()


@needs_recorder
def test_an_existing_file_is_not_written_over(tmp_path):
    out = tmp_path / "x.profile"
    out.write_text("mine")
    done = profile("run", "--out", out, "--", "touch", tmp_path / "ran")
    assert done.returncode == 1
    assert "exists already" in done.stderr
    assert not (tmp_path / "ran").exists()
    assert out.read_text() == "mine"


@needs_recorder
def test_a_file_of_an_earlier_run_is_not_taken_for_one_of_this(tmp_path):
    out, earlier = tmp_path / "x.profile", tmp_path / "x.profile.4711"
    earlier.write_text("mine")
    done = profile("run", "--out", out, "--", "touch", tmp_path / "ran")
    assert done.returncode == 1
    assert "exists already" in done.stderr and str(earlier) in done.stderr
    assert not (tmp_path / "ran").exists()
    (tmp_path / "x.profile.old").write_text("no number")
    earlier.unlink()
    assert profile("run", "--out", out, "--", "sh", "-c", "exit 3").returncode == 3
    done = profile("run", "--out", tmp_path / "nowhere" / "x", "--", "true")
    assert done.returncode == 1
    assert "there is no folder" in done.stderr


@needs_recorder
@pytest.mark.parametrize("content, said", [(b"", "is empty"), (b"OOMB", "nothing was recorded")])
def test_the_exit_code_outlives_a_recording_that_cannot_be_read(tmp_path, content, said):
    """The command stands in for a recorder that was killed, or met a full disk, before its header was out."""
    out = tmp_path / "x.profile"
    for code, expected in ((7, 7), (0, 1)):
        script = f'printf %s "{content.decode()}" > "$OOMB_PROFILE_OUT"; exit {code}'
        done = profile("run", "--out", out, "--", "sh", "-c", script)
        assert done.returncode == expected, done.stderr
        assert said in done.stderr
        out.unlink()


@needs_recorder
@pytest.mark.parametrize("begin, expected", [(0, 1), (1000, 0)])
def test_a_recorder_that_could_not_begin_is_code_1(tmp_path, begin, expected):
    """What such a recorder leaves: a whole file that knows no time of beginning."""
    left, out = tmp_path / "left.profile", tmp_path / "x.profile"
    seeds.write_profile(left, begin_ns=begin)
    done = profile("run", "--out", out, "--", "cp", left, out)
    assert done.returncode == expected, done.stderr


def train(*words):
    return subprocess.run([BIN / "oomb-train", "--model", ROOT / "models/smollm2-135m.json", "--synthetic", "--context", "256",
                           "--chunk", "128", *words], capture_output=True, text=True, timeout=120)


def test_training_on_the_cpu_is_not_recorded(tmp_path):
    done = train("--profile", tmp_path / "x")
    assert done.returncode == 2
    assert "--trace" in done.stderr


@needs_recorder
def test_steps_to_record_are_checked(tmp_path):
    words = ("--device", "cuda", "--dry-run", "--steps", "3", "--profile-steps")
    for steps, more, said in (("2:3", (), "without --profile"), ("0:1", ("--profile", tmp_path / "x"), "counted from 1"),
                              ("4:5", ("--profile", tmp_path / "x"), "the run has 3")):
        done = train(*words, steps, *more)
        assert done.returncode == 2, done.stderr
        assert "--profile-steps" in done.stderr and said in done.stderr


@needs_recorder
def test_the_file_of_a_training_is_checked_as_its_other_files(tmp_path):
    """With --dry-run, which needs no GPU."""
    words = ("--device", "cuda", "--dry-run", "--profile")
    taken = tmp_path / "taken"
    taken.write_text("mine")
    for file, said in ((taken, "exists already"), (tmp_path / "nowhere" / "x", "there is no folder")):
        done = train(*words, file)
        assert done.returncode == 1, done.stderr
        assert said in done.stderr and str(file) in done.stderr
    for flag in ("--trace", "--metrics", "--dump-gradients"):
        done = train(*words, tmp_path / "x", flag, f"{tmp_path}/./x")
        assert done.returncode == 2, done.stderr
        assert flag in done.stderr and "--profile" in done.stderr
    assert train(*words, tmp_path / "x").returncode == 0
    assert not (tmp_path / "x").exists()
