"""The page of `oomb-profile report --html`, opened in headless Chromium without a network."""

import importlib.util
import json
import subprocess
from pathlib import Path

import pages
import pytest

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("seeds", ROOT / "tests/fuzz/seeds.py")
seeds = importlib.util.module_from_spec(spec)
spec.loader.exec_module(seeds)

MS = 1_000_000
START = 10**18
STRING, DEVICE, KERNEL, COPY, MEMSET, MEMORY, MARKER, MARK = 0, 1, 2, 3, 4, 5, 6, 9
NAMES = ["NVIDIA H200", "_Z4gemmIfEvPT_", "_Z9attentionPf", "step", "training", "_Z5otherPf"]
GPU, GEMM, ATTENTION, STEP, TRAINING, OTHER = range(1, 7)
TO_DEVICE, TO_HOST, PINNED, ON_DEVICE = 1, 2, 2, 3


def write_profile(path, records):
    """Records as (tag, fields), with the fields as differences (docs/profile-format.md); blocks of 10,000."""
    strings = [(STRING, [i], name.encode()) for i, name in enumerate(NAMES, 1)]
    records, blocks = strings + records, []
    for first in range(0, len(records), 10_000):
        payload, before = b"", {}
        for tag, values, *text in records[first:first + 10_000]:
            last = before.get(tag, [0] * len(values))
            payload += bytes([tag]) + b"".join(seeds.varint(2 * d if d >= 0 else -2 * d - 1)
                                               for d in (a - b for a, b in zip(values, last, strict=True)))
            payload += seeds.varint(len(text[0])) + text[0] if text else b""
            before[tag] = values
        blocks.append(seeds.block(2, payload, len(records[first:first + 10_000])))
    header = {"program": "oomb-train test", "command": "a program </script> of layers", "process": 1, "begin_ns": START,
              "cupti_version": 130001, "driver_version": 13000, "operation_kinds": seeds.kinds()}
    path.write_bytes(b"OOMBPROF" + seeds.struct.pack("<II", 1, 0) + seeds.block(1, json.dumps(header).encode()) + b"".join(blocks)
                     + seeds.block(3, seeds.varint(len(records))))
    return path


def kernel(begin, end, stream, name, call=0):
    return (KERNEL, [START + begin, START + end, 0, 1, stream, call, name, 8, 1, 1, 128, 1, 1, 32, 0, 0, 0])


def copy(begin, end, stream, kind, size, call=0):
    places = (PINNED, ON_DEVICE) if kind == TO_DEVICE else (ON_DEVICE, PINNED)
    return (COPY, [START + begin, START + end, 0, 1, stream, call, kind, *places, size, 1, 0])


def layers(count):
    """Of each layer of 10 ms: 6 of products, 2.5 of attention beside a copy to the device, a copy to the host that nothing
    hides for half its time, an NVTX range; all of it on one GPU."""
    records = [(DEVICE, [0, GPU, 150 << 30, 132])]
    for layer in range(count):
        at = 10 * MS * layer
        records += [kernel(at, at + 6 * MS, 7, GEMM), kernel(at + 5 * MS, at + int(8.5 * MS), 7, ATTENTION),
                    kernel(at + 2 * MS, at + 3 * MS, 9, OTHER),
                    copy(at + MS, at + 7 * MS, 20, TO_DEVICE, 300_000_000), copy(at + 8 * MS, at + 9 * MS, 21, TO_HOST, 50_000_000),
                    (MEMSET, [START + at + 9 * MS, START + at + int(9.2 * MS), 0, 1, 7, 0, 4096, 0]),
                    (MEMORY, [START + at, 1, ON_DEVICE, 4096 * (layer + 1), (layer % 7 + 1) << 30, 0, 1, 0, 0]),
                    (MARKER, [START + at, 1, layer + 1, 77, STEP, TRAINING]), (MARKER, [START + at + 8 * MS, 2, layer + 1, 77, 0, 0])]
        if layer >= 5:
            records.append((MEMORY, [START + at + 1, 0, ON_DEVICE, 4096 * (layer - 4), 0, 0, 1, 0, 0]))
    return records


@pytest.fixture(scope="module")
def report(program):
    def run(*words):
        done = subprocess.run([program("oomb-profile"), "report", *words], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done

    return run


@pytest.fixture(scope="module")
def page(report, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    report(write_profile(folder / "x.profile", layers(40)), "--html", folder / "page.html")
    return folder / "page.html"


needs_browser = pytest.mark.skipif(pages.browser is None, reason="needs Chromium")


@needs_browser
def test_all_is_drawn_and_moves(page, tmp_path):
    text, found = pages.probe(page, tmp_path)
    for part in ("a program &lt;/script&gt; of layers", "device 0, NVIDIA H200", "copies that nothing hides", "host to device",
                 "Memory in use", "gemm&lt;float&gt;", "Longest times without compute", "Roofline"):
        assert part in text, part
    pages.check_moves(found)
    lanes, memory = found["charts"]
    # 1040 pixels of time, lanes of 22; each of 40 slices has two edges of pixels that it covers in part.
    for color, share in (("#3b6fb6", 0.6), ("#e08e2b", 0.35), ("#2a9d9d", 0.6), ("#c06c9b", 0.1)):
        whole = share * 1040 * 22
        assert whole - 40 * 2 * 22 < lanes.get(color, 0) < 1.01 * whole, color
    assert memory.get("#3b6fb6", 0) > 5000
    # Each lane says what is under the pointer.
    for part in ("gemm\nvoid gemm<float>(float*)\n6 ms from", "attention\n", "copy host to device\npinned to device memory\n6 ms",
                 "286.1 MiB, 50.0 GB/s", "step\n", "memset\n", "other\n"):
        assert any(part in tip for tip in found["tips"]), (part, found["tips"])


@needs_browser
def test_the_picture_has_bars_and_lanes(page, tmp_path):
    picture = pages.screenshot(page, tmp_path)
    assert pages.pixels(picture, "#d1495b") > 500  # copies that nothing hides
    assert pages.pixels(picture, "#2a9d9d") > 5000  # the lane of copies to the device


def data_of(page):
    text = page.read_text()
    begin = text.index('type="application/json">') + len('type="application/json">')
    return json.loads(text[begin:text.index("</script>", begin)])


def panels(data, kind):
    return [panel for panel in data["panels"] if panel["kind"] == kind]


def test_the_window_and_the_numbers(report, tmp_path):
    """Of 40 layers the window holds those that begin from 100 to 200 ms."""
    file = write_profile(tmp_path / "x.profile", layers(40))
    report(file, "--from", "0.1", "--to", "0.2", "--html", tmp_path / "page.html")
    data = data_of(tmp_path / "page.html")
    assert (data["begin_ns"], data["end_ns"]) == (100 * MS, 200 * MS)
    [lanes] = panels(data, "lanes")
    assert [lane["name"] for lane in lanes["lanes"]] == ["stream 7", "lane 2", "stream 9", "copies host to device",
                                                         "copies device to host", "memsets", "thread 77 training"]
    assert all(len(lane["slices"]) == 6 * 10 for lane in lanes["lanes"])
    # Compute of a layer: 0 to 8.5 and the memset; the copy to the host ends 0.5 ms after it. The last layer ends with its memset.
    assert [part[1] for part in panels(data, "bar")[0]["parts"]] == [87 * MS, 5 * MS, 99.2 * MS - 92 * MS]
    [memory] = panels(data, "memory")
    assert memory["points"][0][0] == 100 * MS  # what was in use before is in use


@needs_browser
def test_a_simulated_run_lies_under_the_roof(program, report, tmp_path):
    """The simulator's times of a run in bf16, as if a GPU had taken them: products reach the rates that it was told."""
    trace = tmp_path / "run.trace"
    subprocess.run([program("oomb-plan"), "timeline", "--model", ROOT / "models/smollm2-135m.json", "--context", "8K", "--chunk", "2K",
                    "--window", "4K", "--offload", "host", "--hbm-pages", "ring", "--trace", trace], check=True, capture_output=True)
    records = [(DEVICE, [0, GPU, 150 << 30, 132])]
    for call, line in enumerate(trace.read_text().splitlines()[2:], 1):
        operation, engine, begin, duration, size, _ = json.loads(line)
        records.append((MARK, [call, int(operation, 16)]))
        if engine == 0:
            records.append(kernel(begin, begin + duration, 7, GEMM, call))
        elif size > 0:
            records.append(copy(begin, begin + duration, 20 + engine, TO_DEVICE if engine == 1 else TO_HOST, size, call))
    report(write_profile(tmp_path / "x.profile", records), "--trace", trace, "--hardware", "h200_sxm", "--html", tmp_path / "page.html")
    [chart] = panels(data_of(tmp_path / "page.html"), "roofline")
    [roof] = [roof["per_second"] for roof in chart["roofs"] if not roof["memory"]]
    rates = {point["name"]: point["per_second"] for point in chart["points"]}
    assert rates.keys() >= {"linear_gate_up", "linear_qkv", "attention", "attention_backward"}
    assert 0.3 * roof < max(rates.values()) <= roof
    text, found = pages.probe(tmp_path / "page.html", tmp_path)
    assert "linear_gate_up" in text
    lanes, roofline = found["charts"]  # in the order of the page; nothing allocated memory
    assert roofline.get("#3b6fb6", 0) > 50 and roofline.get("#e08e2b", 0) > 50  # points of products and of attention


def test_millions_of_slices_make_a_small_page(report, tmp_path):
    records = [kernel(2000 * i, 2000 * i + 1500, 7, GEMM) for i in range(100_000)] + [kernel(10**9, 10**9 + MS, 7, OTHER)]
    done = report(write_profile(tmp_path / "x.profile", records), "--html", tmp_path / "page.html", "--chrome", tmp_path / "x.json")
    assert (tmp_path / "page.html").stat().st_size < 4_000_000
    [lanes] = panels(data_of(tmp_path / "page.html"), "lanes")
    slices = lanes["lanes"][0]["slices"]
    assert len(slices) / 6 <= 40_000
    assert sum(-n if n < 0 else 1 for n in slices[3::6]) == 100_001
    assert "joined" not in done.stderr  # 100,001 slices are few enough for --chrome


def test_chrome_joins_beyond_its_limit(report, tmp_path):
    records = [kernel(2000 * i, 2000 * i + 1500, 7, GEMM) for i in range(250_000)] + [kernel(10**9, 10**9 + MS, 7, OTHER)]
    file = write_profile(tmp_path / "x.profile", records)
    done = report(file, "--chrome", tmp_path / "x.json")
    assert "250,001 slices" in done.stderr and "--all-slices" in done.stderr
    trace = json.loads((tmp_path / "x.json").read_text())
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert trace["metadata"]["slices"] == 250_001 and trace["metadata"]["written"] == len(slices) <= 200_000
    assert sum(event["args"].get("slices", 1) for event in slices) == 250_001
    joined = next(event for event in slices if "slices" in event["args"])
    assert joined["args"]["busy_ns"] == 1500 * joined["args"]["slices"]
    report(file, "--chrome", tmp_path / "all.json", "--all-slices", "--from", "0.1")
    trace = json.loads((tmp_path / "all.json").read_text())
    assert trace["metadata"] == {"slices": 200_001, "written": 200_001, "joined_below_ns": 0}


def test_a_run_under_the_roof(report, tmp_path):
    """Of the run of the golden trace, in fp32, one kind of product."""
    trace = ROOT / "tests/golden/trace-tiny.jsonl"
    lines = [json.loads(line) for line in trace.read_text().splitlines()[2:]]
    number = seeds.kinds().index("linear_output")
    ids = [int(line[0], 16) for line in lines if isinstance(line, list) and (int(line[0], 16) >> 19) & 63 == number]
    records = layers(2) + [record for call, operation in enumerate(ids, 1) for record in (
        (MARK, [call, operation]), kernel(30 * MS + call * 10_000, 30 * MS + call * 10_000 + 5_000, 7, GEMM, call))]
    done = report(write_profile(tmp_path / "x.profile", records), "--trace", trace, "--json", "--html", tmp_path / "page.html")
    found = json.loads(done.stdout)["roofline"]
    assert found["hardware"].startswith("NVIDIA H200")
    up, down, product = found["rows"]
    assert up["least_ns"] == pytest.approx(2 * 300e6 / 55.1286e9 * 1e9, rel=1e-5) and up["busy_ns"] == 12 * MS
    assert (product["name"], product["count"], product["busy_ns"]) == ("linear_output", len(ids), 5_000 * len(ids))
    plan = json.loads(trace.read_text().splitlines()[0])["plan"]
    rows, hidden = plan["run"]["chunk_tokens"], plan["model"]["hidden"]
    assert 0 < product["flops"] <= len(ids) * 2 * rows * hidden * hidden
    assert panels(data_of(tmp_path / "page.html"), "roofline") == []  # an H200's profile has no rate of products in fp32


@pytest.mark.parametrize("words, found", [(["--from", "0.4"], "the recording lasts 399"), (["--from", "-1"], "--from"),
                                          (["--from", "0.2", "--to", "0.1"], "no kernel")])
def test_a_window_in_which_nothing_is(program, tmp_path, words, found):
    file = write_profile(tmp_path / "x.profile", layers(40))
    done = subprocess.run([program("oomb-profile"), "report", file, *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert found in done.stderr
