"""The page of `oomb-plan timeline`, opened in headless Chromium without a network."""

import subprocess
from pathlib import Path

import pages
import pytest

MODELS = Path(__file__).resolve().parents[2] / "models"
RUN = ["--context", "16K", "--chunk", "2K", "--window", "4K", "--offload", "host", "--hbm-pages", "ring", "--keep", "x"]

pytestmark = pytest.mark.skipif(pages.browser is None, reason="needs Chromium")


@pytest.fixture(scope="module")
def page(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("timeline")
    subprocess.run([program("oomb-plan"), "timeline", "--model", MODELS / "smollm2-135m.json", *RUN, "--html", folder / "page.html"],
                   check=True, capture_output=True)
    return folder / "page.html"


def test_all_is_drawn_and_moves(page, tmp_path):
    text, found = pages.probe(page, tmp_path)
    for part in ("Where the time goes", "host to device", "GPU memory in use", "gradient, chunk 7"):
        assert part in text
    assert len(found["charts"]) == 3  # lanes, memory of the GPU and of the host
    pages.check_moves(found)
    assert any(tip.startswith("attention") for tip in found["tips"]), found["tips"][:20]


def test_the_picture_has_the_colours_of_the_lanes(page, tmp_path):
    picture = pages.screenshot(page, tmp_path)
    for color in ("#3b6fb6", "#e08e2b", "#2a9d9d"):  # linear layers, attention, pages
        assert pages.pixels(picture, color) > 1000, color
