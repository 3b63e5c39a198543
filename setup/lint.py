#!/usr/bin/env python3
"""Formatting (clang-format-16) of every tracked C++ file and static analysis (clang-tidy-16) of the programs' own sources.

    setup/lint.py BUILD_FOLDER      a configured build: its compile_commands.json says how each file is compiled

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


def analysis(build, files):
    CLEAN.mkdir(parents=True, exist_ok=True)
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in files}
    known = {}
    commands = compile_commands(build)
    chosen = [name for name in files if name in commands and not reaches_torch(name, texts, known)]
    configuration = (ROOT / ".clang-tidy").read_bytes() + run([TIDY, "--version"]).stdout.encode()
    found = []
    with ThreadPoolExecutor(jobs()) as pool:
        reports = pool.map(lambda name: analyse(name, build, *commands[name], configuration), chosen)
        for done, (name, report) in enumerate(zip(chosen, reports), 1):
            print(f"  [{done}/{len(chosen)}] {name}{': FOUND' if report else ''}", flush=True)
            found += [report] if report else []
    return found


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    build = Path(arguments[0]).resolve()
    files = tracked_cpp_files()
    found = []
    if available(FORMAT):
        print(f"==> {FORMAT}: {len(files)} files")
        found += misformatted(files)
    if available(TIDY):
        print(f"==> {TIDY}")
        found += analysis(build, files)
    for report in found:
        print(report)
    print("lint: clean" if not found else f"lint: {len(found)} reports, see above")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
