#!/usr/bin/env python3
"""Draws the pictures of docs/profiling.md from the recording in notebooks/recorded/. Needs Chromium.

    bench/profile_pictures.py [--bin build/bin] [--out docs/images]

profile-overlap.png  the page of `oomb-profile report --html`, zoomed to a copy that is exposed and then hidden
profile-report.png   the text of `oomb-profile report`, its parts numbered as in the document
"""

import argparse
import html
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageChops

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests/python"))

import pages  # noqa: E402

PROFILE = ROOT / "notebooks/recorded/step.profile"
SLICE = 6  # numbers of a slice in the page: begin, duration, category, ...
MARGIN = 18  # pixels around what is drawn

# Runs in the page: nothing below the lanes but a row that says what each moment is.
ROW = """
<script>
const lanes = data.panels.find(panel => panel.kind === "lanes").lanes, canvas = document.querySelector("canvas.moves");
while (canvas.nextSibling) canvas.nextSibling.remove();
for (const left of document.querySelectorAll("h1, ul")) left.remove();
charts.length = 1;
[view.begin, view.end] = VIEW;
const busy = ns => lanes.filter(({ slices }) => {
  for (let i = 0; i < slices.length; i += FIELDS) if (slices[i] <= ns && ns < slices[i] + slices[i + DURATION]) return true;
});
function word(ns) {
  const found = busy(ns), copies = found.filter(lane => lane.name.startsWith("copies")).length;
  return found.length > copies ? (copies ? "compute, copy hidden" : "compute") : copies ? "exposed copy" : "idle";
}
const row = chart(LANE, "what each moment is", (context, width) => {
  context.fillStyle = css("--text");
  context.fillText("this moment is", 8, LANE / 2);
  for (let x = LEFT, begin = LEFT; x < width; ++x) {
    const is = word(timeAt(x, width));
    if (x + 1 < width && word(timeAt(x + 1, width)) === is) continue;
    context.fillStyle = color(is === "idle" ? IDLE : is === "exposed copy" ? EXPOSED : 0);
    context.fillRect(begin, 3, x - begin, LANE - 6);
    context.fillStyle = is === "idle" ? css("--text") : "#ffffff";
    if (context.measureText(is).width + 4 < x - begin) context.fillText(is, begin + 3, LANE / 2 + 0.5);
    begin = x + 1;
  }
});
row.style.border = "none";
drawAll();
</script></body>"""
LONGER = 1.8  # of the gap's length is shown before and after it

TEXT = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 18px; background: #ffffff; }}
pre {{ font: 12px/1.45 "DejaVu Sans Mono", monospace; color: #1d2433; margin: 0; }}
b {{ display: inline-block; width: 17px; height: 17px; line-height: 17px; border-radius: 9px; background: #3b6fb6; color: #ffffff;
    text-align: center; font-size: 11px; }}
span {{ display: inline-block; width: 30px; }}
</style><pre>{lines}</pre>"""
PARTS = ["note:", "  span", "  copies  ", "  longest without", "  memory", "  roof of", "          time", "  operations"]  # how each begins
COLUMNS = 130
KINDS = 8  # rows of operations to show of each end of the table


def report(program, *words):
    done = subprocess.run([program, "report", PROFILE, *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def photograph(page, out, folder, width, height):
    """What is drawn on the page, cropped, in few colours."""
    picture = folder / "picture.png"
    pages.open_page(page, f"--screenshot={picture}", "--hide-scrollbars", "--force-device-scale-factor=1.5", f"--window-size={width},{height}")
    image = Image.open(picture).convert("RGB")
    left, top, right, bottom = ImageChops.difference(image, Image.new("RGB", image.size, image.getpixel((0, 0)))).getbbox()
    box = (max(0, left - MARGIN), max(0, top - MARGIN), min(image.width, right + MARGIN), min(image.height, bottom + MARGIN))
    image.crop(box).quantize(128).save(out, optimize=True)
    print(f"{out}: {out.stat().st_size / 1000:.0f} kB")


def longest_gap(lanes):
    """(begin, end) of the longest time in which nothing computes."""
    slices = sorted((lane["slices"][i], lane["slices"][i] + lane["slices"][i + 1])
                    for lane in lanes if not lane["name"].startswith("copies") for i in range(0, len(lane["slices"]), SLICE))
    ends = itertools.accumulate((end for _, end in slices), max)
    return max(((end, begin) for end, (begin, _) in zip(ends, slices[1:])), key=lambda gap: gap[1] - gap[0])


def overlap(program, out, folder):
    page = folder / "report.html"
    report(program, "--html", page)
    before, opening, rest = page.read_text().partition('type="application/json">')
    content, closing, after = rest.partition("</script>")
    data = json.loads(content)
    panel = next(panel for panel in data["panels"] if panel["kind"] == "lanes")
    panel["lanes"] = [lane for lane in panel["lanes"] if lane["group"].startswith("device")]
    begin, end = longest_gap(panel["lanes"])
    view = (begin - LONGER * (end - begin), end + LONGER * (end - begin))
    for lane in panel["lanes"]:
        places = [i for i in range(0, len(lane["slices"]), SLICE) if lane["slices"][i] < view[1] and sum(lane["slices"][i:i + 2]) > view[0]]
        lane["slices"] = [value for i in places for value in lane["slices"][i:i + SLICE]]
    panel["lanes"] = [lane for lane in panel["lanes"] if lane["slices"] or lane["name"].startswith("copies")]
    used = {category for lane in panel["lanes"] for category in lane["slices"][2::SLICE]}
    panel["categories"] = [[name if i in used else "", color] for i, (name, color) in enumerate(panel["categories"])]
    text = before + opening + json.dumps(data).replace("</", "<\\/") + closing + after
    page.write_text(text.replace("</body>", ROW.replace("VIEW", str(list(view)))))
    photograph(page, out, folder, 1000, 900)


def shortened(lines):
    """Of the operations the first, the last and the phases; no table after it."""
    first = next(i for i, line in enumerate(lines) if line.startswith("  operations"))
    last = next(i for i, line in enumerate(lines) if line.startswith("  phase fill"))
    return [*lines[:first + 1 + KINDS], f"  ... {last - first - 2 * KINDS - 1} more", *lines[last - KINDS:last + 4]]


def table(program, out, folder):
    lines, parts = [], list(enumerate(PARTS, 1))
    for line in shortened(report(program, "--rows", "6").splitlines()):
        label = "<span></span>"
        if parts and line.startswith(parts[0][1]):
            label = f"<span><b>{parts.pop(0)[0]}</b></span>"
        lines.append(label + html.escape(line if len(line) <= COLUMNS else line[:COLUMNS - 1] + "…"))
    if parts:
        raise SystemExit(f"the report has no line that begins with {parts[0][1]!r}: change PARTS")
    page = folder / "report.html"
    page.write_text(TEXT.format(lines="\n".join(lines)))
    photograph(page, out, folder, 1100, 1400)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=ROOT / "build/bin", help="folder of oomb-profile")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/images", help="folder to write to")
    given = parser.parse_args()
    if pages.browser is None:
        raise SystemExit("no Chromium on the search path: install chromium or google-chrome")
    program = given.bin / "oomb-profile"
    for draw, name in ((overlap, "profile-overlap.png"), (table, "profile-report.png")):
        with tempfile.TemporaryDirectory() as folder:
            draw(program, given.out / name, Path(folder))


if __name__ == "__main__":
    main()
