"""Runs that end and go on: the same bits as one that did not, and what is refused."""

import contextlib
import json
import os
import re
import threading
import time

import numpy
import pytest
from transformers import AutoModelForCausalLM

from support import CONTEXT, KILL, TERMINATE, differing_bits, load_tensors

STEPS = 120  # some seconds, so that a signal finds the run at work


@pytest.fixture
def tokens(tmp_path):
    """Seven sequences: a step of two reaches into the next pass now and then."""
    path = tmp_path / "tokens.npy"
    numpy.save(path, numpy.random.default_rng(3).integers(0, 320, 7 * CONTEXT + 5).astype(numpy.uint16))
    return path


@pytest.fixture
def flags(tmp_path, tokens):
    return {"data": tokens, "context": CONTEXT, "steps": STEPS, "learning_rate": 1e-3, "warmup_steps": 2, "gradient_accumulation": 2,
            "offload": "host", "hbm_pages": "ring"}


@pytest.fixture
def kept(tmp_path, flags):
    """The same with a checkpoint after every step."""
    return {**flags, "checkpoint": tmp_path / "state", "checkpoint_minutes": 0, "metrics": tmp_path / "metrics.jsonl"}


def newest(state):
    (folder,) = (path for path in state.iterdir() if re.fullmatch(r"step-\d+", path.name))
    return folder


@pytest.mark.parametrize("variant", [
    {}, {"dtype": "bf16", "master_weights": "remainder", "optimizer_states": "host"}, {"attention": "random", "top_k": 1},
], ids=["fp32", "bf16", "random"])
def test_ended_by_a_signal_and_killed(trainer, model, flags, kept, tmp_path, variant):
    whole = trainer(model, **flags, **variant).check()
    ended = trainer.interrupted(model, number=TERMINATE, after_steps=20, **kept, **variant).check()
    done = len(ended.metrics)
    assert not ended.out.exists() and newest(tmp_path / "state").name == f"step-{done}"
    killed = trainer.interrupted(model, number=KILL, after_steps=done + 20, resume=True, **kept, **variant)
    assert killed.returncode == -KILL and len(killed.metrics) < STEPS
    last = trainer(model, resume=True, **kept, **variant).check()
    assert [record["step"] for record in last.metrics] == list(range(1, STEPS + 1))
    assert last.losses == whole.losses
    assert [record["epoch"] for record in last.metrics] == [record["epoch"] for record in whole.metrics]
    assert not differing_bits(load_tensors(last.out), load_tensors(whole.out))
    steps = json.loads((last.out / "run.json").read_text())["steps"]
    assert steps["done"] == STEPS and done + 19 <= steps["resumed_after"] < STEPS
    assert [path.name for path in (tmp_path / "state").iterdir()] == [f"step-{STEPS}"]


def test_a_checkpoint_is_a_model(trainer, model, kept, tmp_path):
    """Of a finished run: loaded by transformers and by a new run; resumed, it only writes --out again."""
    short = {**kept, "steps": 3}
    run = trainer(model, **short).check()
    state = newest(tmp_path / "state")
    found = AutoModelForCausalLM.from_pretrained(state).state_dict()
    assert not differing_bits({name: found[name] for name in load_tensors(run.out)}, load_tensors(run.out))
    again = trainer(model, resume=True, **short).check()
    assert "after step 3 of 3" in again.output and not differing_bits(load_tensors(again.out), load_tensors(run.out))
    trainer(state, **{**short, "checkpoint": None, "checkpoint_minutes": None, "metrics": None}).check()


def test_longer_and_with_another_rate(trainer, model, kept):
    trainer(model, **{**kept, "steps": 3}).check()
    run = trainer(model, resume=True, **{**kept, "steps": 5, "learning_rate": 5e-4, "context": 30}).check()
    assert len(run.metrics) == 5
    for words in ("--steps is 5 now and was 3", "--learning-rate is 0.0005 now and was 0.001", "--context is 30 now and was 40"):
        assert words in run.output


def test_weights_that_are_not_finite_replace_nothing(trainer, model, kept, tmp_path):
    trainer(model, **{**kept, "steps": 2}).check()
    failed = trainer(model, resume=True, **{**kept, "steps": 50, "learning_rate": 1e39, "warmup_steps": 0})
    assert failed.returncode == 1 and "is not finite after step 3" in failed.output, failed.output
    assert newest(tmp_path / "state").name == "step-2"
    trainer(model, resume=True, **{**kept, "steps": 4}).check()


def test_saved_folders_stay(trainer, model, kept, tmp_path):
    out = tmp_path / "tuned"
    flags = {**kept, "steps": 4, "save_every": 1}
    first = trainer(model, **{**flags, "steps": 2, "out": out}).check()
    assert first.metrics and (tmp_path / "tuned-step1").is_dir()
    second = tmp_path / "second"
    (tmp_path / "tuned-step1").rename(tmp_path / "second-step3")
    run = trainer(model, resume=True, **{**flags, "out": second}).check()
    assert "second-step3 is there already" in run.output and second.is_dir()


class TestRefusals:
    @pytest.fixture(autouse=True)
    def a_run(self, trainer, model, kept):
        self.flags = {**kept, "steps": 3}
        trainer(model, **self.flags).check()
        self.run = lambda **flags: trainer(model, **{**self.flags, **flags})
        self.state = kept["checkpoint"]
        self.before = self.files()

    def files(self):
        return {path: path.read_bytes() for path in sorted(self.state.rglob("*")) if path.is_file()}

    def refused(self, run, code, *words):
        assert run.returncode == code, run.output
        for word in words:
            assert word in run.output, run.output
        assert not run.out.exists() and self.files() == self.before

    def test_without_resume(self):
        self.refused(self.run(metrics=None), 1, "after step 3", "--resume")
        self.refused(self.run(metrics=None, dry_run=True), 1, "after step 3", "--resume")

    def test_fewer_steps(self):
        self.refused(self.run(resume=True, steps=2), 2, "--steps: found 2", "3 or more")

    def test_other_data(self, tmp_path):
        tokens = numpy.load(self.flags["data"])
        numpy.save(tmp_path / "longer.npy", numpy.append(tokens, tokens[:1]))
        tokens[17] += 1
        numpy.save(tmp_path / "changed.npy", tokens)
        self.refused(self.run(resume=True, data=tmp_path / "longer.npy"), 1, "286", "285 tokens", "--model")
        self.refused(self.run(resume=True, data=tmp_path / "changed.npy"), 1, "holds other tokens")

    def test_a_metrics_file_that_is_none(self, tmp_path):
        (tmp_path / "notes").write_text('{"mine": 1}\n')
        self.refused(self.run(resume=True, steps=4, metrics=tmp_path / "notes"), 1, "notes", "step")
        assert (tmp_path / "notes").read_text() == '{"mine": 1}\n'

    @pytest.mark.parametrize("place", ["model.safetensors", "optimizer/model.safetensors"])
    def test_a_damaged_tensor(self, place):
        path = newest(self.state) / place
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        self.before = self.files()
        self.refused(self.run(resume=True, steps=4), 1, "checksum", "damaged")

    def test_a_dry_run_says_what_would_be_resumed(self):
        run = self.run(resume=True, steps=4, dry_run=True).check()
        assert "after step 3 of 4" in run.output and self.files() == self.before


@pytest.mark.parametrize("changed, words", [
    ({"resume": True, "checkpoint": None, "checkpoint_minutes": None}, "--resume needs --checkpoint"),
    ({"checkpoint_minutes": -1}, "--checkpoint-minutes: found -1"),
    ({"no_optimizer": True, "learning_rate": None, "warmup_steps": None, "out": None}, "--no-optimizer"),
    ({"synthetic": True, "data": None, "out": None}, "--synthetic"),
], ids=lambda value: None)
def test_flags_that_make_no_sense(trainer, model, kept, tmp_path, changed, words):
    run = trainer(model, **{**kept, **changed})
    assert run.returncode == 2 and words in run.output, run.output
    assert not (tmp_path / "state").exists()


def test_nothing_to_resume_begins(trainer, model, kept):
    run = trainer(model, resume=True, **{**kept, "steps": 2}).check()
    assert "holds no checkpoint" in run.output and len(run.metrics) == 2


def test_a_folder_that_cannot_be(trainer, model, kept, tmp_path):
    for state, words in ((tmp_path / "absent" / "state", "absent"), (kept["data"], "tokens.npy")):
        run = trainer(model, **{**kept, "checkpoint": state})
        assert run.returncode == 1 and words in run.output and not run.metrics, run.output


@pytest.fixture
def small_disk(tmp_path):
    """Makes a file system of this size in memory."""
    folder = tmp_path / "small"
    folder.mkdir()

    def mounted(size):
        if os.system(f"mount -t tmpfs -o size={size} tmpfs {folder} 2>/dev/null"):
            pytest.skip("mounting is not permitted")
        return folder

    yield mounted
    os.system(f"umount -l {folder} 2>/dev/null")


def test_a_disk_that_is_too_small(trainer, model, kept, small_disk):
    run = trainer(model, **{**kept, "checkpoint": small_disk("64k") / "state"})
    assert run.returncode == 3 and "a checkpoint takes" in run.output, run.output


def test_a_disk_that_fills_up_later(trainer, model, flags, kept, small_disk):
    """The run goes on with the checkpoint that it has, writes --out, and says that the last state was not kept."""
    whole = trainer(model, **flags).check()
    disk = small_disk("12m")
    state = disk / "state"

    def fill():
        while not (state.is_dir() and any(state.glob("step-[1-9][0-9]"))):
            time.sleep(0.01)
        with contextlib.suppress(OSError), open(disk / "filler", "wb", buffering=0) as file:
            while True:
                file.write(bytes(65536))

    filling = threading.Thread(target=fill, daemon=True)
    filling.start()
    run = trainer(model, **{**kept, "checkpoint": state})
    filling.join()
    assert run.returncode == 3 and re.search(r"warning: the state after step \d+ could not be kept: .*a checkpoint takes", run.output), run.output
    assert len(run.metrics) == STEPS and not differing_bits(load_tensors(run.out), load_tensors(whole.out))
    done = int(newest(state).name.removeprefix("step-"))
    assert 10 <= done < STEPS
    (disk / "filler").unlink()
    last = trainer(model, resume=True, **{**kept, "checkpoint": state}).check()
    assert f"after step {done} of {STEPS}" in last.output and last.losses == whole.losses
