#!/usr/bin/env python3
"""Formatting (clang-format-16) of every tracked C++ file and static analysis (clang-tidy-16) of the programs' own sources.

    setup/lint.py BUILD_FOLDER [MINUTES]

BUILD_FOLDER is a configured build: its compile_commands.json says how each file is compiled. With MINUTES, the analysis
starts with what was committed last and starts no further file once they are over; it says how many it left out.

A file that reaches LibTorch's headers takes 40 s to analyse, a test 10 s: those are left to the compiler's warnings. What was
found clean is remembered by the hash of the preprocessed text, so that only changed files are analysed again.
Exit code: 0 clean, 1 something was found, 2 wrong usage.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FORMAT, TIDY = "clang-format-16", "clang-tidy-16"
CLEAN = Path(os.environ.get("OOMB_HOME", Path.home() / ".cache" / "oomb")) / "lint"
OWN_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
TORCH_INCLUDE = re.compile(r"^\s*#\s*include\s*<(ATen|torch|c10)/", re.MULTILINE)


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, **options)


def available(tool):
    if shutil.which(tool):
        return True
    print(f"note: {tool} is not installed; its checks are left out")
    return False


def jobs():
    return int(os.environ.get("JOBS", 0)) or os.cpu_count() or 1


def tracked_cpp_files():
    listed = run(["git", "ls-files", "*.cpp", "*.hpp", "*.cu", "*.cuh"]).stdout.split()
    return [name for name in listed if (ROOT / name).is_file()]


def misformatted(files):
    """Diagnostics of clang-format, a batch of files per process."""
    batches = [files[i :: jobs()] for i in range(jobs()) if files[i :: jobs()]]
    with ThreadPoolExecutor(jobs()) as pool:
        return [r.stderr for r in pool.map(lambda b: run([FORMAT, "--dry-run", "-Werror", *b]), batches) if r.returncode]


def reaches_torch(name, texts, known):
    if name not in known:
        known[name] = False  # a circle of includes ends here
        text = texts.get(name, "")
        known[name] = bool(TORCH_INCLUDE.search(text)) or any(
            reaches_torch(header, texts, known) for header in OWN_INCLUDE.findall(text)
        )
    return known[name]


def compile_commands(build):
    """Name -> (folder, command) of every source of ours that the build compiles, tests left out."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = Path(entry["file"]).resolve()
        if source.suffix == ".cpp" and source.is_relative_to(ROOT) and not source.is_relative_to(ROOT / "tests"):
            commands[source.relative_to(ROOT).as_posix()] = (entry["directory"], shlex.split(entry["command"]))
    return commands


def preprocessed(folder, command):
    """What the compiler reads, comments (NOLINT) included."""
    kept = [a for a in command if a != "-c" and not a.endswith("ccache")]
    kept[kept.index("-o") : kept.index("-o") + 2] = []
    return subprocess.run([*kept, "-E", "-CC", "-P"], capture_output=True, check=False, cwd=folder).stdout


def analyse(name, build, folder, command, configuration):
    """Diagnostics of one file, empty when it is clean."""
    key = hashlib.sha256(configuration + preprocessed(folder, command)).hexdigest()
    if (CLEAN / key).exists():
        return ""
    result = run([TIDY, "--quiet", "-p", str(build), name])
    if result.returncode == 0:
        (CLEAN / key).touch()
        return ""
    return result.stdout or result.stderr


def newest_first(names):
    """The names in the order of their last commits; what git does not tell stays in its order, at the end."""
    shown = run(["git", "log", "--format=", "--name-only", "--no-renames"]).stdout.splitlines()
    place = {name: at for at, name in reversed(list(enumerate(shown)))}
    return sorted(names, key=lambda name: place.get(name, len(shown)))


def analysis(build, files, minutes):
    until = time.monotonic() + 60 * minutes if minutes else float("inf")
    CLEAN.mkdir(parents=True, exist_ok=True)
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in files}
    known = {}
    commands = compile_commands(build)
    chosen = [name for name in files if name in commands and not reaches_torch(name, texts, known)]
    chosen = newest_first(chosen) if minutes else chosen
    configuration = (ROOT / ".clang-tidy").read_bytes() + run([TIDY, "--version"]).stdout.encode()
    found = []

    def report_of(name):
        return analyse(name, build, *commands[name], configuration) if time.monotonic() < until else None

    with ThreadPoolExecutor(jobs()) as pool:
        for done, (name, report) in enumerate(zip(chosen, pool.map(report_of, chosen)), 1):
            if report is None:
                print(f"  {minutes} minutes are over: the {len(chosen) - done + 1} files that changed longest ago are left out")
                break
            print(f"  [{done}/{len(chosen)}] {name}{': FOUND' if report else ''}", flush=True)
            found += [report] if report else []
    return found


def main(arguments):
    if len(arguments) not in (1, 2) or not all(words.isdecimal() for words in arguments[1:]):
        print(__doc__, file=sys.stderr)
        return 2
    build, minutes = Path(arguments[0]).resolve(), int(arguments[1]) if len(arguments) > 1 else 0
    files = tracked_cpp_files()
    found = []
    if available(FORMAT):
        print(f"==> {FORMAT}: {len(files)} files")
        found += misformatted(files)
    if available(TIDY):
        print(f"==> {TIDY}")
        found += analysis(build, files, minutes)
    for report in found:
        print(report)
    print("lint: clean" if not found else f"lint: {len(found)} reports, see above")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
