"""The page of `oomb-plan timeline`, opened in headless Chromium without a network."""

import shutil
import subprocess
from pathlib import Path

import pytest

MODELS = Path(__file__).resolve().parents[2] / "models"
RUN = ["--context", "16K", "--chunk", "2K", "--window", "4K", "--offload", "host", "--hbm-pages", "ring", "--keep", "x"]
browser = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)

pytestmark = pytest.mark.skipif(browser is None, reason="needs Chromium")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    import os

    folder = tmp_path_factory.mktemp("timeline")
    plan = Path(os.environ.get("OOMB_BIN") or MODELS.parent / "build/bin") / "oomb-plan"
    subprocess.run([plan, "timeline", "--model", MODELS / "smollm2-135m.json", *RUN, "--html", folder / "page.html"], check=True,
                   capture_output=True)
    return folder / "page.html"


def open_page(page, *flags):
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND",
               "--enable-logging=stderr", "--virtual-time-budget=3000", "--window-size=1250,1500", *flags, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_all_is_drawn(page):
    done = open_page(page, "--dump-dom")
    assert done.returncode == 0
    assert 'data-drawn="yes"' in done.stdout  # the last line of the script
    assert "CONSOLE" not in done.stderr, done.stderr
    for text in ("Where the time goes", "host to device", "GPU memory in use", "gradient, chunk 7"):
        assert text in done.stdout


def test_the_canvases_have_colours(page, tmp_path):
    picture = tmp_path / "page.png"
    open_page(page, f"--screenshot={picture}")
    # A blank page of this size compresses to some 10 kB.
    assert picture.stat().st_size > 50_000
