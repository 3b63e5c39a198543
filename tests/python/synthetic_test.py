"""oomb-train --synthetic: a run that needs a config file and nothing else."""

import json
import math

import pytest

from make_tiny_model import save_tiny_model
from support import differing_bits, load_tensors

CONTEXT = 40


@pytest.fixture
def config(tmp_path):
    save_tiny_model(tmp_path / "whole", "qwen3")
    (tmp_path / "config.json").write_text((tmp_path / "whole" / "config.json").read_text())
    return tmp_path / "config.json"


def synthetic(trainer, model, **flags):
    return trainer(model, None, CONTEXT, **{"synthetic": True, "out": None, **flags})


def test_gradient_steps_without_optimizer(trainer, config):
    run = synthetic(trainer, config, steps=3, no_optimizer=True, learning_rate=None).check()
    assert "synthetic" in run.output and "random tokens" in run.output
    # Weights stay, tokens differ from step to step. Small weights know nothing: ln of the vocabulary, give or take the
    # spread of a few dozen targets.
    vocabulary = json.loads(config.read_text())["vocab_size"]
    assert len(set(run.losses)) == 3
    assert run.losses == pytest.approx([math.log(vocabulary)] * 3, abs=0.3)
    assert all(f"step {step}/3" in run.output for step in (1, 2, 3))
    assert all(step["seconds"]["total"] > 0 for step in run.metrics)


def test_seed_and_nothing_else_decides(trainer, config, sequence_file, tmp_path):
    """A folder without weights is as good as its config; threads do not matter, the seed does."""
    (tmp_path / "folder").mkdir()
    config.rename(tmp_path / "folder" / "config.json")
    seeds = ({}, {"threads": 2}, {"seed": 2})
    first, same, other = (synthetic(trainer, tmp_path / "folder", **flags).check() for flags in seeds)
    assert first.losses == pytest.approx(same.losses, rel=1e-6) and first.losses != other.losses
    # Random weights alone can be written: learning rate 0, so what is written is what was drawn.
    data = sequence_file.random(CONTEXT)[0]
    drawn = [load_tensors(trainer(tmp_path / "folder", data, CONTEXT, from_scratch=True, **flags).check().out)
             for flags in seeds]
    assert differing_bits(drawn[0], drawn[1]) == []
    assert differing_bits(drawn[0], drawn[2]) != []


def test_top_k_pages(trainer, config, sequence_file):
    """Two chunks with lists in a step. As many pages as there are is dense training; wherever pages lie, bits stay."""
    def train(**flags):
        run = trainer(config, data, CONTEXT, from_scratch=True, steps=2, learning_rate=1e-3, **flags).check()
        return run.losses, load_tensors(run.out)

    data = sequence_file.random(2 * CONTEXT)[0]  # another sequence in each step

    dense_losses, dense = train()
    losses, all_pages = train(attention="topk", top_k=4)
    assert losses == dense_losses and differing_bits(all_pages, dense) == []
    sparse_losses, sparse = train(attention="topk", top_k=1)
    assert sparse_losses[1] != dense_losses[1] and differing_bits(sparse, dense) != []
    moved = {"offload": "host", "hbm_pages": "ring", "keep": "xo", "window": 8}
    losses, tensors = train(attention="topk", top_k=1, **moved)
    assert losses == sparse_losses and differing_bits(tensors, sparse) == []


def test_lists_of_a_model_or_of_a_trace(trainer, config, sequence_file, tmp_path):
    """Lists that a run recorded, given to it again, change no bit; others do; and none reach a run that learns from data."""
    def measure(**flags):
        return synthetic(trainer, config, **{"attention": "topk", "top_k": 1, "no_optimizer": True, "learning_rate": None, **flags})

    def norm(run):
        return run.check().metrics[0]["grad_norm"]

    trace = tmp_path / "selected.trace"
    assert norm(measure(trace=trace)) == norm(measure(page_trace=trace))
    assert norm(measure(locality="1,0,0")) != norm(measure(locality="0,8,0"))  # the first page, the latest
    learning = trainer(config, sequence_file.random(CONTEXT)[0], CONTEXT, attention="topk", top_k=1, from_scratch=True, locality="1,0,0")
    for run, named in ((measure(locality="1,0"), "--locality"), (measure(page_trace=config), "config.json"),
                       (measure(locality="1,0,0", page_trace=trace), "--page-trace"), (measure(page_trace=trace, top_k=2), "--top-k"),
                       (measure(locality="1,0,0", attention="dense", top_k=None), "--attention topk"), (learning, "--synthetic")):
        assert run.returncode != 0 and named in run.output


def test_data_is_refused_and_missing_data_hints_at_it(trainer, config, sequence_file):
    run = trainer(config, sequence_file.random(CONTEXT)[0], CONTEXT, synthetic=True)
    assert run.returncode == 2 and "--data" in run.output and "--synthetic" in run.output
    assert run.metrics == [] and not run.out.exists()
    run = trainer(config, None, CONTEXT)
    assert run.returncode == 2 and "--synthetic" in run.output
