"""What the drivers of this folder share: methods at an equal budget, runs of oomb-train, and results that are kept row by row."""

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
METHODS = ("dense", "topk", "local", "random")
NAMES = {"dense": "dense", "topk": "top-K", "local": "local", "random": "random K"}


def local_window(setting):
    """Tokens that a token sees on average under top-K: half its chunk and K pages."""
    return setting["chunk"] // 2 + setting["top_k"] * setting["page_tokens"]


def method_flags(method, setting):
    if method in ("topk", "random"):
        return ["--attention", method, "--top-k", setting["top_k"]]
    return ["--attention", method, *(["--local-window", local_window(setting)] if method == "local" else [])]


def shape_flags(setting):
    """Of training and evaluation alike. `flags` of a setting are those of the device."""
    words = {"context": "context", "chunk": "chunk", "page-tokens": "page_tokens", "window": "window"}
    return [word for flag, key in words.items() for word in (f"--{flag}", setting[key])] + setting["flags"].split()


def run(*words, seconds=None):
    """Runs a program to its end, which it is asked for after `seconds`; its output as text. SystemExit where it fails."""
    words = [str(word) for word in words]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        try:
            output, errors = program.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            program.terminate()
            output, errors = program.communicate()
    if program.returncode != 0:
        sys.exit(f"{shlex.join(words)}: exit {program.returncode}\n{output[-2000:]}{errors[-4000:]}")
    return output


def shown(words, *folders):
    """A command without what is this machine's own: the folders of programs, models and data."""
    text = shlex.join(str(word) for word in words)
    for folder in sorted(map(str, folders), key=len, reverse=True):
        text = text.replace(f"{folder}/", "")
    return text


def read_metrics(path, points=60):
    """Loss by step, thinned to about that many points, the last step among them: [[step, loss], ...]."""
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
    stride = max(1, len(lines) // points)
    return [[line["step"], line["loss"]] for line in lines if line["step"] % stride == 0 or line is lines[-1]]


class Rows:
    """A result file. It is written after every row, so that a run that was stopped goes on where it was; a row is made again when its
    settings have changed."""

    def __init__(self, path, facts):
        self.path = Path(path)
        self.content = json.loads(self.path.read_text()) if self.path.is_file() else {"rows": {}}
        self.content.update(facts)
        self._begin = time.monotonic()
        self._longest = 0.0

    @property
    def rows(self):
        return self.content["rows"]

    def has(self, name, setting):
        return name in self.rows and self.rows[name]["setting"] == setting

    def time_left(self, minutes):
        """Whether one more row, as long as the longest so far, ends within `minutes` of the start; None: no limit."""
        return minutes is None or time.monotonic() - self._begin + self._longest < 60 * minutes

    def seconds_left(self, minutes):
        """Of `minutes` since the start; None: no limit."""
        return None if minutes is None else max(5.0, 60 * minutes - (time.monotonic() - self._begin))

    def make(self, name, setting, measure):
        """`measure` gives the row, or None where it was not done in time and goes on at the next call."""
        begin = time.monotonic()
        measured = measure()
        if measured is None:
            return None
        row = {"setting": setting, **measured}
        row["seconds"] = round(time.monotonic() - begin, 1)
        self._longest = max(self._longest, time.monotonic() - begin)
        self.rows[name] = row
        self.write()
        return row

    def write(self):
        beside = self.path.with_name(f".{self.path.name}.partial")
        beside.write_text(json.dumps(self.content, indent=1) + "\n")
        beside.replace(self.path)


def overrides(setting, words):
    """`name=value` words over a setting, with the type that is there."""
    setting = dict(setting)
    for word in words:
        name, found, value = word.partition("=")
        if not found or name not in setting:
            sys.exit(f"--set: found \"{word}\", allowed is NAME=VALUE with a name of {', '.join(setting)}")
        setting[name] = type(setting[name])(value)
    return setting


def add_flags(parser, presets, out):
    parser.add_argument("--preset", choices=presets, required=True)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="other numbers than the preset's")
    parser.add_argument("--bin", default=ROOT / "build/bin", type=Path, help="folder of oomb-train")
    parser.add_argument("--methods", default=",".join(METHODS), help="(default: %(default)s)")
    parser.add_argument("--seeds", default="1,2,3", help="(default: %(default)s)")
    parser.add_argument("--minutes", type=float, help="begin no row that would probably end later than this; run again to go on")
    parser.add_argument("--scratch", required=True, type=Path, help="folder for data and models, kept between runs")
    parser.add_argument("--out", type=Path, default=out, help="JSON; page and plot are written beside it (default: %(default)s)")
    parser.add_argument("--page", action="store_true", help="make page and plot from the JSON and stop")


def chosen(text, allowed, flag):
    names = [name for name in text.split(",") if name]
    if unknown := [name for name in names if name not in allowed]:
        sys.exit(f"{flag}: {', '.join(unknown)} unknown; there are {', '.join(allowed)}")
    return names


def save_figure(figure, path):
    """The same bytes for the same drawing."""
    from matplotlib import pyplot

    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def version_of(program):
    return " ".join(run(program, "--version").split())
