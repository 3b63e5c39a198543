"""oomb-train eval: losses are those of transformers and of training, the same bytes twice, and clear refusals."""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch
from reference_step import load_model
from safetensors.torch import load_file

from conftest import ROOT

# Both sides compute in fp32 over at most 448 terms and two layers (parity_tiny_test.py).
LOSS_TOLERANCE = 1e-5
CONTEXT = 100
FLAGS = {"context": CONTEXT, "chunk": 16, "page-tokens": 8, "window": 32, "dtype": "fp32", "threads": 1}


@pytest.fixture
def evaluate(program, model, tmp_path):
    def run(data, code=0, **flags):
        out = Path(flags.pop("json", tmp_path / f"evaluation-{len(list(tmp_path.glob('evaluation-*')))}.json"))
        command = [program("oomb-train"), "eval", "--model", model, "--data", data, "--json", out]
        for name, value in {**FLAGS, **{name.replace("_", "-"): value for name, value in flags.items()}}.items():
            command += [f"--{name}"] if value is True else [f"--{name}", value] if value is not None else []
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        assert result.returncode == code, result.stdout + result.stderr
        return result, json.loads(out.read_text()) if out.is_file() else None

    return run


@pytest.fixture
def tokens():
    return numpy.random.default_rng(5).integers(0, 320, 2 * CONTEXT + 20)


def losses_of(model, tokens):
    sequence = torch.as_tensor(tokens.astype(numpy.int64))
    with torch.no_grad():
        logits = load_model(model)(input_ids=sequence[None, :-1]).logits[0].double()
    return torch.nn.functional.cross_entropy(logits, sequence[1:], reduction="none").numpy()


def sidecar(tokens, documents):
    return {"format_version": 1, "tokens": len(tokens), "dtype": "uint16", "documents": documents,
            "tokenizer_sha256": hashlib.sha256(b"").hexdigest(), "eos_token_id": 0, "sources": 1, "bytes": len(tokens)}


@pytest.mark.parametrize("flags", [{}, {"offload": "host", "hbm_pages": "ring"}, {"logit_tile": 5}],
                         ids=lambda flags: "-".join(flags) or "plain")
def test_losses_are_those_of_transformers_by_bucket(evaluate, model, tokens, sequence_file, flags):
    _, found = evaluate(sequence_file(tokens), buckets="10,64", **flags)
    assert [document["offset_tokens"] for document in found["documents"]] == [0, CONTEXT]
    everything = []
    for document in found["documents"]:
        first = document["offset_tokens"]
        expected = losses_of(model, tokens[first:first + CONTEXT + 1])
        everything.append(expected)
        assert document["loss"] == pytest.approx(expected.mean(), abs=LOSS_TOLERANCE, rel=0)
        assert document["perplexity"] == pytest.approx(numpy.exp(document["loss"]), rel=1e-12)
        for bucket, (begin, end) in zip(document["buckets"], [(0, 10), (10, 64), (64, CONTEXT)], strict=True):
            assert (bucket["first"], bucket["end"], bucket["valid_targets"]) == (begin, end, end - begin)
            assert bucket["loss"] == pytest.approx(expected[begin:end].mean(), abs=LOSS_TOLERANCE, rel=0)
    assert found["loss"] == pytest.approx(numpy.concatenate(everything).mean(), abs=LOSS_TOLERANCE, rel=0)
    assert found["valid_targets"] == 2 * CONTEXT


def test_the_loss_of_every_target(evaluate, model, tokens, sequence_file, tmp_path):
    _, found = evaluate(sequence_file(tokens), losses=tmp_path / "losses.npy")
    losses = numpy.load(tmp_path / "losses.npy")
    assert losses.dtype == numpy.dtype("<f4")
    for document, row in zip(found["documents"], losses.reshape(-1, CONTEXT), strict=True):
        first = document["offset_tokens"]
        assert row == pytest.approx(losses_of(model, tokens[first:first + CONTEXT + 1]), abs=LOSS_TOLERANCE, rel=0)
        assert document["loss"] == pytest.approx(row.mean(dtype=float), rel=1e-6)


def test_losses_of_documents_lie_one_behind_the_other(evaluate, tokens, sequence_file, tmp_path):
    data = sequence_file(tokens, sidecar(tokens, [0, 30, 31, 33, len(tokens)]))
    _, found = evaluate(data, by_document=True, losses=tmp_path / "losses.npy")
    losses = numpy.load(tmp_path / "losses.npy")
    ends = numpy.cumsum([document["tokens"] for document in found["documents"]])
    assert ends[-1] == len(losses)
    for document, part in zip(found["documents"], numpy.split(losses, ends[:-1]), strict=True):
        assert document["loss"] == pytest.approx(part.mean(dtype=float), rel=1e-6)


def test_documents_are_evaluated_each_from_its_begin(evaluate, model, tokens, sequence_file):
    borders = [0, 30, 31, 33, len(tokens)]
    result, found = evaluate(sequence_file(tokens, sidecar(tokens, borders)), by_document=True)
    assert [(document["offset_tokens"], document["tokens"]) for document in found["documents"]] == [
        (0, 29), (31, 1), (33, CONTEXT)]
    for document in found["documents"]:
        first, count = document["offset_tokens"], document["tokens"]
        expected = losses_of(model, tokens[first:first + count + 1])
        assert document["loss"] == pytest.approx(expected.mean(), abs=LOSS_TOLERANCE, rel=0)
    assert "3 documents, 1 of them longer" in result.stderr and "1 of one token" in result.stderr
    assert found["documents"][0]["buckets"][0]["valid_targets"] == 29


@pytest.mark.parametrize("flags", [{}, {"attention": "topk", "top_k": 2}, {"attention": "random", "top_k": 2}],
                         ids=["dense", "topk", "random"])
def test_the_loss_is_that_of_a_training_step_and_two_runs_print_the_same(evaluate, trainer, model, sequence_file, flags):
    data, _ = sequence_file.random(CONTEXT, seed=9)
    run = trainer(model, data, CONTEXT, window=32, seed=0, **flags).check()
    first, found = evaluate(data, **flags)
    again, _ = evaluate(data, **flags)
    assert found["loss"] == pytest.approx(run.losses[0], rel=1e-12)
    assert first.stdout == again.stdout


def test_enough_pages_are_dense_and_seeds_draw_others(evaluate, tokens, sequence_file):
    data = sequence_file(tokens)
    _, dense = evaluate(data, window=128)
    for attention in ("topk", "random"):
        _, all_pages = evaluate(data, window=128, attention=attention, top_k=12)
        assert all_pages["documents"] == dense["documents"]
    losses = [evaluate(data, attention="random", top_k=1, seed=seed)[1]["loss"] for seed in (1, 1, 2)]
    assert losses[0] == losses[1] != losses[2]


def test_what_is_used_is_what_is_planned(evaluate, sequence_file):
    data, _ = sequence_file.random(CONTEXT)
    for flags in ({}, {"offload": "host", "hbm_pages": "ring"}, {"attention": "topk", "top_k": 2}, {"recall": True}):
        result, _ = evaluate(data, **flags)
        found = re.findall(r"(device|host) arena: planned .*\(([\d,]+) bytes\), used .*\(([\d,]+) bytes\)", result.stderr)
        assert [tier for tier, _, _ in found] == ["device", "host"], result.stderr
        assert all(planned == used for _, planned, used in found)


def test_recall_and_its_plots(evaluate, tokens, sequence_file, tmp_path):
    data = sequence_file(tokens)
    result, found = evaluate(data, recall=True, budgets="1,2,4")
    plain, _ = evaluate(data)
    assert result.stdout.startswith(plain.stdout)
    assert {(row["layer"], row["pages"]) for row in found["recall"]} == {(layer, k) for layer in (0, 1) for k in (1, 2, 4)}
    for row in found["recall"]:
        assert 0 < row["latest"] <= row["best"] * (1 + 1e-6) <= row["history_mass"] * (1 + 1e-5) <= row["all_mass"]
        assert 0 < row["top_k"] <= row["best"] * (1 + 1e-6)
        assert sum(row["distances"]) == row["pages"] * row["query_pages"]
    file = tmp_path / "evaluation-0.json"
    plots = subprocess.run([sys.executable, ROOT / "bench" / "evaluation_plots.py", file, "--out", tmp_path / "plots"],
                           capture_output=True, text=True)
    assert plots.returncode == 0, plots.stderr
    names = {"loss.png", "recall.png", "recall_layers.png", "distances.png"}
    assert names == {path.name for path in (tmp_path / "plots").iterdir()}


def test_gradient_error_shrinks_to_nothing_with_all_pages(evaluate, tokens, sequence_file):
    data = sequence_file(tokens)
    _, found = evaluate(data, gradient_error=True, attention="topk", budgets="1,4,12", window=128)
    by_pages = {pages: [row for row in found["gradient_error"] if row["pages"] == pages] for pages in (1, 4, 12)}
    for rows in by_pages.values():
        assert {(row["layer"], row["of"]) for row in rows} == {
            (layer, of) for layer in (0, 1) for of in ("keys", "values", "weights")} | {(None, "weights")}
    assert all(row["relative_error"] == 0 for row in by_pages[12])
    mean = {pages: numpy.mean([row["relative_error"] for row in rows]) for pages, rows in by_pages.items()}
    assert mean[1] > mean[4] > 0
    assert found["losses"][-1]["loss"] == found["dense_loss"]


def flat_gradients(run, layer):
    prefix = f"model.layers.{layer}."
    return numpy.concatenate([tensor.double().numpy().ravel() for name, tensor in sorted(load_file(run.gradients).items())
                              if name.startswith(prefix) or (layer is None and "layers." not in name)])


@pytest.mark.parametrize("attention", ["topk", "random"])
def test_gradient_error_of_weights_is_that_of_dumped_gradients(evaluate, trainer, model, sequence_file, attention):
    data, _ = sequence_file.random(CONTEXT, seed=4)
    _, found = evaluate(data, gradient_error=True, attention=attention, budgets="2", seed=5)
    dense = trainer(model, data, CONTEXT, gradients=True, window=32).check()
    sparse = trainer(model, data, CONTEXT, gradients=True, window=32, attention=attention, top_k=2, seed=5).check()
    assert found["dense_loss"] == dense.losses[0]
    assert found["losses"] == [{"pages": 2, "loss": sparse.losses[0]}]
    rows = [row for row in found["gradient_error"] if row["of"] == "weights"]
    assert [row["layer"] for row in rows] == [0, 1, None]
    for row in rows:
        a, b = flat_gradients(dense, row["layer"]), flat_gradients(sparse, row["layer"])
        size, other = numpy.linalg.norm(a), numpy.linalg.norm(b)
        assert row["cosine"] == pytest.approx(a @ b / size / other, rel=1e-9)
        assert row["norm_ratio"] == pytest.approx(other / size, rel=1e-9)
        assert row["relative_error"] == pytest.approx(numpy.linalg.norm(a - b) / size, rel=1e-9)
        assert row["cosine"] < 1 - 1e-5


@pytest.mark.parametrize("code, words, flags", [
    (2, ["--learning-rate with eval", "leave it out"], {"learning_rate": 1e-3}),
    (2, ["--keep with eval"], {"keep": "xo"}),
    (2, ["--no-optimizer with eval"], {"no_optimizer": True}),
    (2, ["--steps with eval"], {"steps": 3}),
    (2, ["--top-k", "--attention topk"], {"top_k": 3}),
    (2, ["--attention random needs --top-k"], {"attention": "random"}),
    (2, ["--buckets", "ascending"], {"buckets": "64,10"}),
    (2, ["--buckets", "the context has 100"], {"buckets": "64,128"}),
    (2, ["--budgets", "--recall"], {"budgets": "1,2"}),
    (2, ["--recall with --attention topk"], {"recall": True, "attention": "topk", "top_k": 2}),
    (2, ["--recall", "smaller --chunk"], {"recall": True, "chunk": 104}),
    (2, ["--gradient-error", "topk or random"], {"gradient_error": True, "budgets": "1"}),
    (2, ["--gradient-error needs --budgets"], {"gradient_error": True, "attention": "topk"}),
    (2, ["--sequences: found 3", "has 2"], {"sequences": 3}),
    (1, ["holds 220 tokens", "needs 301"], {"context": 300}),
    (1, ["--by-document", "no sidecar"], {"by_document": True}),
    (2, ["--hardware", "--device cpu"], {"hardware": "h200_sxm"}),
    (2, ["--thread", "did you mean --threads"], {"thread": 1}),
    (2, ["--losses", "--gradient-error"], {"gradient_error": True, "budgets": "1", "attention": "topk", "losses": "x.npy"}),
    (2, ["--json and --losses", "x.npy", "name of its own"], {"losses": "x.npy", "json": "x.npy"}),
    (1, ["nowhere", "no folder"], {"losses": "nowhere/x.npy"}),
], ids=lambda value: "-".join(value) if isinstance(value, dict) else "")
def test_refusals(evaluate, tokens, sequence_file, code, words, flags):
    result, found = evaluate(sequence_file(tokens), code, **flags)
    assert found is None and result.stdout == ""
    for word in words:
        assert word in result.stderr, result.stderr


def test_no_tokens(evaluate, sequence_file, tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_bytes(b"")
    result, _ = evaluate(empty, 1)
    assert "empty" in result.stderr
    single = sequence_file([3])
    result, _ = evaluate(single, 1)
    assert "holds 1 tokens" in result.stderr


def test_a_result_is_not_written_over(evaluate, tokens, sequence_file, tmp_path):
    (tmp_path / "there.json").write_text("{}")
    result, found = evaluate(sequence_file(tokens), 1, json=tmp_path / "there.json")
    assert "exists already" in result.stderr and found == {}
    result, _ = evaluate(sequence_file(tokens), 1, json=tmp_path / "nowhere" / "there.json")
    assert "no folder" in result.stderr


def test_a_dry_run_plans_and_checks(evaluate, tokens, sequence_file):
    result, found = evaluate(sequence_file(tokens), dry_run=True)
    assert found is None and "evaluation" in result.stdout
    assert "host_losses" in result.stdout
    assert not any(word in result.stdout for word in ("K/V gradient pages", "moments", "\n  gradients", "keep"))
    evaluate(sequence_file(numpy.array([400] * (CONTEXT + 1))), 1, dry_run=True)
