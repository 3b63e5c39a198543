"""Lists of top-K pages: recorded by oomb-train, read as docs/trace-format.md says, and by oomb-plan."""

import json
import subprocess

import pytest

CONTEXT, CHUNK, PAGE, TOP_K, LAYERS = 160, 16, 4, 3, 2  # 40 pages, four to a chunk; the first listed one is page 4
RUN = {"offload": "host", "hbm_pages": "ring", "window": 16, "chunk": CHUNK, "page_tokens": PAGE, "attention": "topk",
       "top_k": TOP_K}
FLAGS = [text for name, value in RUN.items() for text in (f"--{name.replace('_', '-')}", str(value))]


def pages_of(text):
    pages = []
    for part in text.split(" "):
        first, _, last = part.partition("-")
        pages += range(int(first), int(last or first) + 1)
    return pages


@pytest.fixture
def recorded(trainer, model, sequence_file, tmp_path):
    data, _ = sequence_file.random(CONTEXT)
    trainer(model, data, CONTEXT, trace=tmp_path / "trace", **RUN).check()
    return tmp_path / "trace"


@pytest.fixture
def plan(program, model):
    def run(command, *arguments):
        return subprocess.run([program("oomb-plan"), command, *map(str, arguments)], capture_output=True, text=True)

    return run


def test_every_list_is_there_once(recorded):
    lines = [json.loads(line) for line in recorded.read_text().splitlines()[1:]]
    found = {}
    for line in lines:
        if isinstance(line, dict) and "lists" in line:
            for i, text in enumerate(line["lists"]):
                place = line["sequence"], line["layer"], line["query_page"] + i
                assert place not in found
                found[place] = pages_of(text)
    layers = {layer for _, layer, _ in found}
    assert sorted(found) == [(0, layer, page) for layer in sorted(layers) for page in range(4, CONTEXT // PAGE)]
    for (_, _, page), pages in found.items():
        assert len(pages) == TOP_K and pages == sorted(set(pages)) and pages[-1] < page // 4 * 4


def test_the_planner_moves_what_the_run_moved(recorded, plan, model, tmp_path):
    header, *lines = map(json.loads, recorded.read_text().splitlines())
    moved = {kind: [0, 0] for kind in header["kinds"]}
    for line in lines:
        if isinstance(line, list):
            kind = header["kinds"][int(line[0], 16) >> 19 & 63]
            moved[kind][0] += line[4]
            moved[kind][1] += line[5]
    result = plan("policies", "--model", model, "--context", CONTEXT, "--device", "cpu", *FLAGS, "--page-trace", recorded,
                  "--json", tmp_path / "policies.json")
    assert result.returncode == 0, result.stderr
    rows = json.loads((tmp_path / "policies.json").read_text())["rows"]
    runs = rows[0]
    assert runs["policy"] == "least recently used"
    brought = [fetched + prefetched for fetched, prefetched in zip(moved["fetch"], moved["prefetch"])]
    assert moved["fetch"][0] > 0 and moved["prefetch"][0] > 0
    assert runs["host_to_device_bytes"] == brought[0]
    assert runs["device_to_host_bytes"] == moved["write_back"][0] > 0
    assert runs["kv"]["fetched_pages"] + runs["kv_gradient"]["fetched_pages"] == brought[1]
    assert rows[2]["host_to_device_bytes"] <= min(rows[0]["host_to_device_bytes"], rows[1]["host_to_device_bytes"])


def test_a_fit_is_taken_for_a_prediction(recorded, plan, model, tmp_path):
    fitted = plan("locality", "--trace", recorded, "--json", tmp_path / "locality.json")
    assert fitted.returncode == 0 and "use it: --locality" in fitted.stdout, fitted.stderr
    flags = ["--model", model, "--context", CONTEXT, "--dtype", "bf16", *FLAGS]
    named = plan("fit", *flags, "--locality", tmp_path / "locality.json", "--json", tmp_path / "plan.json")
    assert named.returncode == 0 and "an estimate" in named.stdout, named.stderr
    time = json.loads((tmp_path / "plan.json").read_text())["time"]
    assert time["seconds"]["total"] > 0 and str(recorded) in time["page_lists"]["source"]
    again = plan("fit", *flags, "--page-trace", recorded)
    assert again.returncode == 0 and f"recorded in {recorded}" in again.stdout, again.stderr
    other = plan("fit", *[str(TOP_K + 1) if text == str(TOP_K) else text for text in flags], "--page-trace", recorded)
    assert other.returncode == 2 and "--top-k" in other.stderr


@pytest.mark.parametrize("arguments, code, says", [
    (["locality", "--trace", "absent"], 1, "absent"),
    (["locality"], 2, "--trace"),
    (["policies", "--context", "4K"], 2, "--offload"),
    (["fit", "--context", "4K", "--locality", "1,2,3"], 2, "--attention topk"),
    (["fit", "--context", "64K", "--attention", "topk", "--top-k", 8, "--locality", "1,2"], 2, "--locality"),
])
def test_refusals(plan, model, arguments, code, says):
    command, *rest = arguments
    result = plan(command, *([] if command == "locality" else ["--model", model]), *rest)
    assert result.returncode == code and says in result.stderr, result.stderr
