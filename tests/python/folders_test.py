"""Model folders in and out: what --out writes, and the layouts that are read."""

import json
import os

import pytest
import torch
from safetensors.torch import load_file, save_file

from make_tiny_model import save_tiny_model
from reference_step import loss_of
from support import TERMINATE, differing_bits, load_tensors

CONTEXT = 40


@pytest.fixture
def data(sequence_file):
    return sequence_file.random(CONTEXT)


@pytest.mark.parametrize("kind, dtype", [
    ("qwen2", "bf16"), ("qwen3", "fp32"), ("llama_bias", "fp16"), ("yarn", "bf16"),
])
def test_without_learning_the_tensors_stay(trainer, tmp_path, data, kind, dtype):
    """Tied (qwen2, yarn) and untied heads; the stored type is kept."""
    save_tiny_model(tmp_path / "model", kind, dtype=dtype)
    run = trainer(tmp_path / "model", data[0], CONTEXT, steps=2).check()
    assert differing_bits(load_tensors(run.out), load_tensors(tmp_path / "model")) == []
    before = json.loads((tmp_path / "model" / "config.json").read_text())
    assert json.loads((run.out / "config.json").read_text()) == before


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama_bias"])
def test_a_trained_folder_loads_in_transformers(trainer, tmp_path, data, kind):
    """Saved after one step, it gives the same loss in both; tied embeddings stay one tensor."""
    save_tiny_model(tmp_path / "model", kind)
    trained = trainer(tmp_path / "model", data[0], CONTEXT, learning_rate=1e-2).check()
    again = trainer(trained.out, data[0], CONTEXT).check()
    assert again.losses[0] < trained.losses[0] - 0.01
    assert again.losses[0] == pytest.approx(loss_of(trained.out, data[1]), abs=1e-5, rel=0)
    assert load_tensors(trained.out).keys() == load_tensors(tmp_path / "model").keys()


def test_other_files_come_along(trainer, tmp_path, data):
    save_tiny_model(tmp_path / "model", "llama")
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        (tmp_path / "model" / name).write_text(f'{{"name": "{name}"}}')
    run = trainer(tmp_path / "model", data[0], CONTEXT).check()
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        assert (run.out / name).read_bytes() == (tmp_path / "model" / name).read_bytes()
    record = json.loads((run.out / "run.json").read_text())
    assert record["oomb"]["commit"] and record["plan"]
    assert (record["seed"], record["threads"]) == (1, 1) and "--seed 1" in record["command"]


def test_the_report_adds_up(trainer, tmp_path, data):
    """What run.json says of all steps is the sum of what the metrics say of each, and the plan is met."""
    save_tiny_model(tmp_path / "model", "qwen3")
    run = trainer(tmp_path / "model", data[0], CONTEXT, steps=3, offload="host", hbm_pages="ring", keep="xo", window=8,
                  chunk=8).check()
    report = json.loads((run.out / "run.json").read_text())["report"]
    assert (report["device"], report["steps"], report["tokens"]) == ("cpu", 3, 3 * CONTEXT)
    for phase, seconds in report["seconds"].items():
        assert seconds == pytest.approx(sum(step["seconds"][phase] for step in run.metrics)) and seconds > 0
    for direction in ("host_to_device", "device_to_host"):
        moved = report["copies"][direction]["bytes"]
        assert moved["measured"] == moved["predicted"] == sum(step["copies"][direction]["bytes"] for step in run.metrics)
        assert moved["measured"] > 0
    for arena in ("hbm", "host", "page_tables"):
        assert report["memory_bytes"][arena]["measured"] == report["memory_bytes"][arena]["predicted"] > 0
    assert report["memory_bytes"]["resident"]["measured"] > report["memory_bytes"]["resident"]["predicted"] > 0
    assert report["model_flops"] > 6 * CONTEXT * 3
    assert report["flop_utilisation"] is report["joules"] is report["memory_bytes"]["driver"]["measured"] is None
    for words in ("host to device", "device to host", "hidden behind compute", "backward", "tokens/s", "page tables, on the host",
                  "predicted as both arenas and page tables"):
        assert words in run.output


def test_optimizer_states_on_the_host_give_the_same_folder(trainer, tmp_path, data):
    save_tiny_model(tmp_path / "model", "qwen2")
    in_hbm, on_host = (trainer(tmp_path / "model", data[0], CONTEXT, steps=3, learning_rate=1e-2, max_grad_norm=0.5,
                               optimizer_states=states).check() for states in ("hbm", "host"))
    assert differing_bits(load_tensors(in_hbm.out), load_tensors(on_host.out)) == []
    reports = [json.loads((run.out / "run.json").read_text())["report"] for run in (in_hbm, on_host)]
    plan = json.loads((on_host.out / "run.json").read_text())["plan"]
    assert plan["run"]["optimizer_states"] == "host" and plan["optimizer_shards"] == {"hbm": 0, "host": 1}
    states_bytes = next(region["slot_bytes"] for region in plan["regions"] if region["name"] == "host_states")
    for direction in ("host_to_device", "device_to_host"):
        moved, without = (report["copies"][direction]["bytes"] for report in reversed(reports))
        assert moved["measured"] == moved["predicted"] == without["measured"] + 3 * states_bytes
    assert reports[1]["memory_bytes"]["host"]["measured"] == reports[1]["memory_bytes"]["host"]["predicted"]


def test_a_longer_context_is_saved_and_said(trainer, tmp_path, sequence_file):
    save_tiny_model(tmp_path / "model", "llama", max_position_embeddings=64)
    data, tokens = sequence_file.random(100)
    run = trainer(tmp_path / "model", data, 100).check()
    assert "max_position_embeddings" in run.output and "64" in run.output
    assert json.loads((run.out / "config.json").read_text())["max_position_embeddings"] >= 100
    assert run.losses[0] == pytest.approx(loss_of(run.out, tokens), abs=1e-5, rel=0)


def test_shards(trainer, tmp_path, data):
    save_tiny_model(tmp_path / "model", "qwen3", shard_size="200KB")
    assert len(list((tmp_path / "model").glob("model-*.safetensors"))) > 1
    run = trainer(tmp_path / "model", data[0], CONTEXT).check()
    assert run.losses[0] == pytest.approx(loss_of(tmp_path / "model", data[1]), abs=1e-5, rel=0)
    assert differing_bits(load_tensors(run.out), load_tensors(tmp_path / "model")) == []


def test_an_absent_shard_is_named(trainer, tmp_path, data):
    save_tiny_model(tmp_path / "model", "qwen3", shard_size="200KB")
    shard = sorted((tmp_path / "model").glob("model-*.safetensors"))[-1]
    shard.unlink()
    run = trainer(tmp_path / "model", data[0], CONTEXT)
    assert run.returncode == 1 and shard.name in run.output and not run.out.exists()


def link_as_in_the_cache(model, cache):
    """The layout of the Hugging Face cache: snapshots/COMMIT holds relative links into blobs/."""
    snapshot = cache / "snapshots" / "0123abcd"
    snapshot.mkdir(parents=True)
    (cache / "blobs").mkdir()
    for number, path in enumerate(sorted(model.iterdir())):
        blob = cache / "blobs" / f"{number:040x}"
        path.rename(blob)
        (snapshot / path.name).symlink_to(os.path.relpath(blob, snapshot))
    return snapshot


def test_links_of_the_hugging_face_cache(trainer, tmp_path, data):
    save_tiny_model(tmp_path / "model", "qwen3", shard_size="200KB")
    (tmp_path / "model" / "tokenizer.json").write_text("{}")
    snapshot = link_as_in_the_cache(tmp_path / "model", tmp_path / "cache")
    run = trainer(snapshot, data[0], CONTEXT).check()
    assert differing_bits(load_tensors(run.out), load_tensors(snapshot)) == []
    assert [path for path in run.out.iterdir() if path.is_symlink()] == []


def test_an_existing_folder_is_kept(trainer, tmp_path, data):
    save_tiny_model(tmp_path / "model", "llama")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "note").write_text("mine")
    run = trainer(tmp_path / "model", data[0], CONTEXT, out=tmp_path / "taken")
    assert run.returncode in (1, 2) and str(tmp_path / "taken") in run.output
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["note"]


def test_a_signal_ends_after_writing(trainer, tmp_path, data):
    save_tiny_model(tmp_path / "model", "llama")
    run = trainer.interrupted(tmp_path / "model", data[0], CONTEXT, TERMINATE, after_steps=3, steps=1000000,
                              learning_rate=1e-3).check()
    assert 3 <= len(run.metrics) < 1000000
    assert loss_of(run.out, data[1]) < run.losses[0]
    assert [path.name for path in run.out.parent.iterdir() if path.name.startswith(".")] == []


def test_bf16_on_the_cpu_with_split_masters_and_bf16_gradients(trainer, tmp_path, data):
    """Weights that bf16 holds exactly have no ties, so one step gives the same masters, whole or split, bit for bit."""
    save_tiny_model(tmp_path / "bf16", "qwen3", dtype="bf16")
    model = tmp_path / "model"
    save_tiny_model(model, "qwen3", dtype="fp32")
    save_file({name: tensor.float() for name, tensor in load_tensors(tmp_path / "bf16").items()},
              model / "model.safetensors", metadata={"format": "pt"})
    common = {"dtype": "bf16", "learning_rate": 1e-3, "optimizer_states": "host"}
    whole = trainer(model, data[0], CONTEXT, gradients=True, **common).check()
    split = trainer(model, data[0], CONTEXT, master_weights="remainder", **common).check()
    assert differing_bits(load_tensors(split.out), load_tensors(whole.out)) == []
    assert differing_bits(load_tensors(whole.out), load_tensors(model)) != []
    narrow = trainer(model, data[0], CONTEXT, gradients=True, gradient_dtype="bf16", **common).check()
    for name, gradient in load_file(whole.gradients).items():
        stored = load_file(narrow.gradients)[name]
        assert gradient.dtype == torch.float32
        assert stored.dtype == (torch.bfloat16 if gradient.dim() == 2 else torch.float32), name
        assert (stored.float() - gradient).norm() < 0.02 * gradient.norm(), name
    run = json.loads((split.out / "run.json").read_text())["plan"]["run"]
    assert (run["gradient_dtype"], run["master_weights"]) == ("fp32", "remainder")


@pytest.mark.parametrize("flags", [{"gradient_dtype": "bf16"}, {"master_weights": "remainder"}])
def test_narrow_types_need_bf16(trainer, tmp_path, data, flags):
    save_tiny_model(tmp_path / "model", "llama")
    run = trainer(tmp_path / "model", data[0], CONTEXT, **flags)
    assert run.returncode == 2 and "take --dtype bf16" in run.output
