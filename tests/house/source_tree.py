"""The source files of a tree, and C++ text with its comments and literals blanked out."""

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

CPP_SUFFIXES = {".cpp", ".hpp", ".cu", ".cuh", ".h", ".cc"}
SOURCE_SUFFIXES = CPP_SUFFIXES | {".py", ".sh", ".cmake"}

_NOT_CODE = re.compile(
    r'R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"'  # raw string
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"  # character, but no digit separator
    r"|//[^\n]*"
    r"|/\*.*?\*/",
    re.DOTALL,
)


def source_files(root, suffixes=frozenset(SOURCE_SUFFIXES)):
    """Paths relative to `root`, sorted; builds and hidden folders are no part of the tree."""
    found = []
    for folder, names, files in os.walk(root):
        names[:] = [n for n in names if not n.startswith(".") and n not in ("build", "__pycache__")]
        found += [Path(folder, f).relative_to(root) for f in files]
    return sorted(p for p in found if p.suffix in suffixes or (p.name == "CMakeLists.txt" and ".cmake" in suffixes))


def blank_comments_and_literals(text):
    """Same length and same lines; what stood in comments, strings and characters is spaces."""
    return _NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
