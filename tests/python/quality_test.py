"""bench/quality: the tasks hold what they promise, answers are scored, and the drivers keep their rows and go on."""

import json
import math
import subprocess
import sys
from types import SimpleNamespace

import numpy
import pytest

from conftest import ROOT

sys.path.append(str(ROOT / "bench/quality"))

import continued_training  # noqa: E402
import synthetic_tasks  # noqa: E402
from rows import Rows, local_window, overrides  # noqa: E402
from synthetic_tasks import BEGIN, CUE, FIRST_FILLER, Copy, Count, Failure, draw_file, score  # noqa: E402

FOLDER = ROOT / "bench/quality"


def sequences_of(task, count=40, seed=3):
    tokens, answers = draw_file(task, count, seed)
    assert tokens.max() < task.vocab and tokens[-1] == BEGIN
    return tokens[:-1].reshape(count, task.context), answers


def test_a_copy_is_the_segment_and_lies_far_away():
    task = Copy(context=90, distance=30, segment=12, symbols=5, filler=3)
    rows, answers = sequences_of(task)
    firsts = set()
    for row, of_row in zip(rows, answers):
        first, second = numpy.flatnonzero(row == CUE)
        assert second - (first + task.segment) - 1 >= task.distance
        assert row[0] == BEGIN and second == task.context - 1 - task.segment
        assert (row[first + 1:first + 13] == row[second + 1:]).all()
        symbols = row[second + 1:] - (FIRST_FILLER + task.filler)
        assert (symbols // task.symbols == numpy.arange(12)).all()  # each place has its own
        assert (numpy.flatnonzero(of_row) + 1 == numpy.arange(second + 1, task.context)).all()
        filler = numpy.delete(row, numpy.r_[0, first:first + 13, second:task.context])
        assert filler.min() >= FIRST_FILLER and filler.max() < FIRST_FILLER + task.filler
        firsts.add(first)
    assert min(firsts) >= 1 and len(firsts) > 10
    nearest = [Copy(context=2 + 2 * 13 - 1 + 30, distance=30, segment=12).room, task.room]
    assert nearest == [1, 90 - 2 * 13 - 30]


def test_counts_are_those_of_the_context():
    task = Count(context=80, kinds=3, most=9)
    rows, answers = sequences_of(task)
    seen = set()
    for row, of_row in zip(rows, answers):
        end, = numpy.flatnonzero(row == CUE)
        assert end == 1 + task.places and row[0] == BEGIN
        places = numpy.flatnonzero(of_row) + 1
        assert (places == [end + 2, end + 4, end + 6]).all()
        assert sorted(row[places - 1]) == [6, 7, 8]  # after four filler symbols
        for place in places:
            number = int((row[:end] == row[place - 1]).sum())
            assert row[place] == 9 + number
            seen.add(number)
    assert seen == set(range(10))


def test_a_seed_decides_everything():
    task = Count(context=40, kinds=2, most=3)
    same, other = draw_file(task, 5, 1), draw_file(task, 5, 2)
    assert (draw_file(task, 5, 1)[0] == same[0]).all() and (same[0] != other[0]).any()


def test_guessing_is_the_entropy_of_an_answer():
    assert Copy(context=90, distance=30, symbols=5).guessing == math.log(5)
    assert Count(context=80, most=9).guessing == math.log(10)


def test_scores_are_of_answers_alone():
    answers = numpy.array([[False, True, True], [False, False, True]])
    losses = numpy.array([9, 0.5, 1.5, 9, 9, 0.25], numpy.float32)
    assert score(losses, answers) == {"loss": 0.75, "known": pytest.approx(2 / 3), "answers": 3}
    with pytest.raises(Failure, match="5 losses, 6 positions"):
        score(losses[:5], answers)


@pytest.mark.parametrize("words, complaint", [
    (["copy", "--context", "64", "--distance", "50"], "--context 64"),
    (["count", "--context", "20"], "--context 20"),
    (["count", "--context", "64", "--out", "x.txt"], "ends in .npy"),
])
def test_refusals(words, complaint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    out = [] if "--out" in words else ["--out", "x.npy"]
    assert synthetic_tasks.main([*words, "--sequences", "2", *out]) == 1
    assert complaint in capsys.readouterr().err and list(tmp_path.iterdir()) == []


def test_files(tmp_path, capsys):
    command = ["copy", "--context", "1K", "--distance", "256", "--sequences", "3", "--out", str(tmp_path / "copy.npy")]
    assert synthetic_tasks.main(command) == 0
    tokens, answers = numpy.load(tmp_path / "copy.npy"), numpy.load(tmp_path / "copy.answers.npy")
    assert tokens.dtype == numpy.uint16 and tokens.shape == (3 * 1024 + 1,) and answers.shape == (3, 1024)
    facts = json.loads((tmp_path / "copy.task.json").read_text())
    assert (facts["task"], facts["distance"], facts["vocab"]) == ("copy", 256, 2 + 4 + 16 * 8)
    assert synthetic_tasks.main(command) == 1 and "exists" in capsys.readouterr().err


def test_rows_are_kept_until_their_settings_change(tmp_path):
    out = tmp_path / "rows.json"
    Rows(out, {"oomb": "x"}).make("a 1", {"steps": 3}, lambda: {"loss": 2.0})
    again = Rows(out, {})
    assert again.has("a 1", {"steps": 3}) and not again.has("a 1", {"steps": 4}) and not again.has("a 2", {"steps": 3})
    assert again.content["oomb"] == "x" and again.rows["a 1"]["loss"] == 2.0
    assert again.time_left(None) and again.time_left(1) and not again.time_left(0)


def test_a_setting_takes_other_numbers_of_its_type():
    assert overrides({"steps": 3, "flags": "--device cpu"}, ["steps=5"]) == {"steps": 5, "flags": "--device cpu"}
    with pytest.raises(SystemExit, match="allowed is NAME=VALUE"):
        overrides({"steps": 3}, ["stepz=5"])
    assert local_window({"chunk": 32, "top_k": 4, "page_tokens": 8}) == 48


def drive(name, program, scratch, out, *words):
    command = [sys.executable, FOLDER / name, "--preset", "smoke", "--bin", program("oomb-train").parent, "--scratch", scratch, "--out", out, *words]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True)


def test_every_method_trains_on_the_tasks(program, tmp_path):
    out = tmp_path / "tasks.json"
    first = drive("synthetic.py", program, tmp_path / "scratch", out, "--seeds", "1", "--minutes", "0")
    assert first.returncode == 0, first.stderr
    assert "7 rows are left" in first.stdout and list(json.loads(out.read_text())["rows"]) == ["copy dense 1"]
    done = drive("synthetic.py", program, tmp_path / "scratch", out, "--seeds", "1")
    assert done.returncode == 0, done.stderr
    assert "copy dense" not in done.stdout  # is kept
    content = json.loads(out.read_text())
    assert set(content["rows"]) == {f"{task} {method} 1" for task in ("copy", "count") for method in ("dense", "topk", "local", "random")}
    for row in content["rows"].values():
        assert 0 < row["loss"] < 20 and 0 <= row["known"] <= 1 and [step for step, _ in row["training"]] == [1, 2, 3]
        assert str(tmp_path) not in json.dumps(row)
    losses = {name: row["loss"] for name, row in content["rows"].items()}
    assert losses["copy dense 1"] != losses["copy topk 1"] != losses["copy random 1"]
    text = out.with_suffix(".md").read_text()
    assert "| copy | top-K | 1 |" in text and "(tasks.svg)" in text and out.with_suffix(".svg").read_text().startswith("<?xml")


def test_a_model_is_trained_on_and_compared(program, run_tool, tmp_path):
    assert run_tool("make_smollm2.py", "--random", "--out", tmp_path / "model", "--layers", 1).returncode == 0
    text = tmp_path / "text"
    text.mkdir()
    for i in range(40):
        (text / f"{i:02}.txt").write_text(f"Document {i}. " + "It says the same again and again. " * 60)
    out = tmp_path / "continued.json"
    done = drive("continued_training.py", program, tmp_path / "scratch", out, "--model", tmp_path / "model", "--text", text, "--seeds", "1,2",
                 "--set", "rope_theta=2e5")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(out.read_text())["rows"]
    methods = ("dense", "topk", "local", "random")
    assert set(rows) == ({f"start, {method}, 0" for method in methods} | {"recall, dense, 0", "gradient error, topk, 0"}
                         | {f"{kind}, {method}, {seed}" for kind in ("training", "own") for method in methods for seed in (1, 2)}
                         | {f"as dense, {method}, {seed}" for method in methods[1:] for seed in (1, 2)})
    assert rows["own, dense, 1"]["loss"] < rows["start, dense, 0"]["loss"]
    assert rows["training, dense, 1"]["curve"] != rows["training, dense, 2"]["curve"]  # another order
    for one in rows["recall, dense, 0"]["recall"]:
        assert one["top_k"] <= one["best"] + 1e-6 and 0 < one["of_all"] < 1
    assert {(one["pages"], one["of"]) for one in rows["gradient error, topk, 0"]["gradient_error"]} == {
        (pages, of) for pages in (1, 2) for of in ("keys", "values", "weights")}
    text_of_page = out.with_suffix(".md").read_text()
    assert "| top-K |" in text_of_page and "| 0 to 127 |" in text_of_page and "| 2 | weights |" in text_of_page and str(tmp_path) not in text_of_page
    again = drive("continued_training.py", program, tmp_path / "scratch", out, "--model", tmp_path / "model", "--text", text, "--seeds", "1,2",
                  "--set", "rope_theta=2e5")
    assert again.returncode == 0 and again.stdout == ""
    assert json.loads((tmp_path / "scratch/model/config.json").read_text())["max_position_embeddings"] == 128


def test_a_training_goes_on_where_the_time_ended_it(program, run_tool, tmp_path):
    """In pieces of two seconds: the curve and the model of one that did not end."""
    assert run_tool("make_smollm2.py", "--random", "--out", tmp_path / "model", "--layers", 1).returncode == 0
    for i in range(4):
        (tmp_path / f"{i}.txt").write_text(f"Document {i}. " + "It says the same again and again. " * 600)
    setting = {**continued_training.PRESETS["smoke"], "steps": 100}

    def runs(scratch):
        return continued_training.Runs(SimpleNamespace(bin=program("oomb-train").parent, model=tmp_path / "model", scratch=scratch,
                                                         text=sorted(tmp_path.glob("*.txt"))), setting, [1])

    whole, cut = runs(tmp_path / "whole"), runs(tmp_path / "cut")
    expected = whole.training("topk", 1, None)
    pieces, row = 0, None
    while row is None and pieces < 100:
        row, pieces = cut.training("topk", 1, 2), pieces + 1
    assert pieces > 1 and row["curve"] == expected["curve"]
    assert (cut.trained("topk", 1) / "model.safetensors").read_bytes() == (whole.trained("topk", 1) / "model.safetensors").read_bytes()
