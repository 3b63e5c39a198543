"""HTML pages in headless Chromium, without a network."""

import html
import json
import re
import shutil
import subprocess

import numpy
from PIL import Image

browser = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)

# Runs in the page when it is drawn: what the charts show, before and after the wheel and other means of moving; what
# was loaded.
PROBE = """
<script>
function painted(canvas) {
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d"), colors = {};
  copy.drawImage(canvas, 0, 0);
  const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
  for (let i = 0; i < data.length; i += 4) {
    const name = "#" + [data[i], data[i + 1], data[i + 2]].map(n => n.toString(16).padStart(2, "0")).join("");
    if (data[i + 3] === 255) colors[name] = (colors[name] || 0) + 1;
  }
  return colors;
}
// Without a window frames come rarely: what the page has asked for one is drawn here.
async function settled() {
  await new Promise(done => setTimeout(done, 50));
  if (drawingIsDue) { drawingIsDue = false; drawAll(); }
}
(async () => {
  const charts = [...document.querySelectorAll("canvas")], lanes = document.querySelector("canvas.moves"), box = lanes.getBoundingClientRect();
  const found = { charts: charts.map(painted), height: box.height, views: [[view.begin, view.end]] };
  const step = async event => { lanes.dispatchEvent(event); await settled(); found.views.push([view.begin, view.end]); };
  const at = { clientX: box.left + LEFT + (box.width - LEFT) / 2, clientY: box.top + 10, pointerId: 1, bubbles: true, cancelable: true };
  lanes.setPointerCapture = () => {};
  await step(new WheelEvent("wheel", { ...at, deltaY: -1000 }));
  found.zoomed = painted(lanes);
  await step(new PointerEvent("pointerdown", at));
  await step(new PointerEvent("pointermove", { ...at, clientX: at.clientX + 100, buttons: 1 }));
  await step(new PointerEvent("pointerup", at));
  await step(new MouseEvent("dblclick", at));
  found.again = painted(lanes);
  found.tips = [];
  for (let y = 2; y < box.height; y += 5) {
    for (let x = LEFT + 3; x < box.width; x += 12) {
      lanes.dispatchEvent(new PointerEvent("pointermove", { ...at, clientX: box.left + x, clientY: box.top + y }));
      const text = document.getElementById("tip").textContent;
      if (text && !found.tips.includes(text)) found.tips.push(text);
    }
  }
  found.loaded = performance.getEntriesByType("resource").map(entry => entry.name);
  document.documentElement.dataset.probe = JSON.stringify(found);
})();
</script></body>"""


def open_page(page, *flags):
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND", "--force-device-scale-factor=1",
               "--enable-logging=stderr", "--virtual-time-budget=20000", "--window-size=1250,1500", *flags, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done


def probe(page, folder):
    """The page's text, and what PROBE finds in it. Fails on anything that the page has to say to the console."""
    copy = folder / "probed.html"
    copy.write_text(page.read_text().replace("</body>", PROBE))
    done = open_page(copy, "--dump-dom")
    assert 'data-drawn="yes"' in done.stdout  # the last line of the page's script
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout, json.loads(html.unescape(re.search('data-probe="([^"]*)"', done.stdout).group(1)))


def screenshot(page, folder):
    """[rows, columns, 3] of a window of 1250 x 1500."""
    picture = folder / "page.png"
    open_page(page, f"--screenshot={picture}", "--hide-scrollbars")
    return numpy.asarray(Image.open(picture).convert("RGB"))


def pixels(picture, color):
    """How many of a screenshot have the colour "#3b6fb6"."""
    return int((picture == [int(color[i:i + 2], 16) for i in (1, 3, 5)]).all(axis=2).sum())


def check_moves(found):
    """The wheel zooms to the middle, dragging moves, a double click shows all again; nothing was loaded."""
    (begin, end), zoomed, *dragged, last = found["views"]
    middle, length = (begin + end) / 2, zoomed[1] - zoomed[0]
    assert 0 < length < (end - begin) / 4  # exp(1000 * 0.0015) is 4.5
    # The event's place is a whole pixel of some 1000.
    assert abs((zoomed[0] + zoomed[1]) / 2 - middle) < 0.002 * (end - begin)
    moved = dragged[-1]
    assert moved[0] < zoomed[0] and abs((moved[1] - moved[0]) - length) < 1e-6 * length
    assert last == [begin, end]
    assert found["zoomed"] != found["charts"][0]
    assert found["again"] == found["charts"][0]
    assert found["loaded"] == []
