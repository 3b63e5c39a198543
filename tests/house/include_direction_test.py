"""Includes follow the arrows between the rooms; see "Rooms and doors" in ARCHITECTURE.md."""

import re
import tempfile
import unittest
from pathlib import Path

from source_tree import CPP_SUFFIXES, ROOT, source_files

CORE, SCHEDULE, PAGING, ISSUE = "runtime/core", "runtime/schedule", "runtime/paging", "runtime/issue"
DEVICE, FLAGS, TRACE = "runtime/device", "runtime/flags", "runtime/trace"
COSTS, LISTS, STEP, SEARCH = "simulator/costs", "simulator/lists", "simulator/step", "simulator/search"
RUNTIME = [CORE, SCHEDULE, TRACE, PAGING, ISSUE]
PAGE_VIEW = "runtime/paging/page_view.hpp"

# room -> what it may include beside itself: rooms, or single headers
ALLOWED = {
    CORE: [],
    FLAGS: [CORE],  # only the programs read flags
    SCHEDULE: [CORE],
    TRACE: [CORE, SCHEDULE],
    PAGING: [CORE],
    ISSUE: [CORE, SCHEDULE, PAGING],
    DEVICE: [CORE, PAGING],
    "kernels": [CORE, PAGE_VIEW],
    "timeline": [CORE, SCHEDULE, TRACE],
    COSTS: RUNTIME,
    LISTS: RUNTIME,
    STEP: [*RUNTIME, COSTS, LISTS],
    "simulator/calibration": [*RUNTIME, COSTS, STEP],
    "simulator/replay": [*RUNTIME, COSTS, STEP],
    SEARCH: [*RUNTIME, COSTS, STEP],
    "simulator/report": [*RUNTIME, STEP, SEARCH],
    "profiler": [CORE, SCHEDULE, TRACE, "timeline"],
    "trainer": [*RUNTIME, DEVICE, "kernels"],
}
JOINERS = ("tests/", "bench/")  # these and every <room>/cli/ may include all rooms

# library -> where its headers may be included (path prefixes); `but` takes folders out again
LIBRARIES = [
    {"name": "LibTorch", "header": re.compile(r"(ATen|torch|c10)/"), "but": ("trainer/weights/", "trainer/data/"),
     "where": ("trainer/", "tests/", "bench/")},
    {"name": "CUPTI", "header": re.compile(r"(cupti|generated_nvtx_meta)"), "but": (),
     "where": ("profiler/record/", "tests/", "bench/")},
    {"name": "NVTX", "header": re.compile(r"nvtx3/"), "but": (), "where": ("trainer/cuda/", "profiler/record/", "tests/")},
    {"name": "xxhash", "header": re.compile(r"xxhash"), "but": (), "where": ("trainer/checkpoint/",)},
    {"name": "SQLite", "header": re.compile(r"sqlite3"), "but": (), "where": ("profiler/export/", "tests/")},
    {"name": "CUDA", "header": re.compile(r"(cuda|cublas|cudnn|cutlass|cute/|nvrtc)"), "but": (),
     "where": ("runtime/device/", "kernels/", "profiler/", "trainer/", "tests/", "bench/")},
]

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def room_of(path):
    return next((room for room in ALLOWED if path.startswith(room + "/")), None)


def may_join(path):
    return path.startswith(JOINERS) or "/cli/" in path


def fault_of_own_include(root, path, target):
    """`path` includes our file `target`: what is wrong with it, or None."""
    if not (root / target).is_file():
        return f'"{target}" is no path from the root of the tree (libraries are included with <>)'
    if may_join(path):
        return None
    room = room_of(path)
    allowed = [room, *ALLOWED[room]]
    if "/cli/" in target:
        return f'"{target}" belongs to a program; no room may use it'
    if any(target == door or target.startswith(door + "/") for door in allowed):
        return None
    return f'"{target}" is not for {room}, which may include {", ".join(allowed)}'


def fault_of_library_include(path, header):
    for library in LIBRARIES:
        if library["header"].match(header):
            if path.startswith(library["but"]) or not path.startswith(library["where"]):
                return f'<{header}> is {library["name"]}, which belongs to {", ".join(library["where"])}'
    return None


def faults_of_file(root, path):
    if room_of(path) is None and not may_join(path):
        return [f"{path}: lies in no room; rooms are {', '.join(ALLOWED)}"]
    text = (root / path).read_text(encoding="utf-8")
    faults = []
    for match in INCLUDE.finditer(text):
        own, library = match.groups()
        fault = fault_of_own_include(root, path, own) if own else fault_of_library_include(path, library)
        if fault:
            faults.append(f"{path}:{text.count(chr(10), 0, match.start(1 if own else 2)) + 1}: {fault}")
    return faults


def faults_of_tree(root):
    return [f for path in source_files(root, CPP_SUFFIXES) for f in faults_of_file(root, path.as_posix())]


class TheTree(unittest.TestCase):
    def test_includes_follow_the_arrows(self):
        self.assertGreater(len(source_files(ROOT, CPP_SUFFIXES)), 0)
        faults = faults_of_tree(ROOT)
        self.assertFalse(faults, "\n" + "\n".join(faults))


class TheCheck(unittest.TestCase):
    """Each case plants one include into a small tree with a header in every room."""

    def plant(self, path, line):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for header in [*(f"{room}/door.hpp" for room in ALLOWED), PAGE_VIEW, "trainer/cli/main.hpp"]:
                (root / header).parent.mkdir(parents=True, exist_ok=True)
                (root / header).write_text("#pragma once\n")
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(f"// first line\n{line}\n")
            return faults_of_tree(root)

    def test_every_forbidden_pair_of_rooms_is_found(self):
        for room, allowed in ALLOWED.items():
            for other in set(ALLOWED) - {room, *allowed}:
                faults = self.plant(f"{room}/bad.cpp", f'#include "{other}/door.hpp"')
                self.assertEqual(1, len(faults), (room, other))
                self.assertTrue(faults[0].startswith(f"{room}/bad.cpp:2: "), faults)

    def test_every_allowed_pair_passes(self):
        for room, allowed in ALLOWED.items():
            for door in [room, *allowed]:
                header = door if door.endswith(".hpp") else f"{door}/door.hpp"
                self.assertEqual([], self.plant(f"{room}/good.cpp", f'#include "{header}"'), (room, door))

    def test_only_programs_tests_and_benchmarks_join_rooms(self):
        for path in ("trainer/cli/main.cpp", "simulator/cli/main.cpp", "tests/trainer/a_test.cpp", "bench/a.cpp"):
            for room in ALLOWED:
                self.assertEqual([], self.plant(path, f'#include "{room}/door.hpp"'), (path, room))
        self.assertEqual(1, len(self.plant("trainer/bad.cpp", '#include "trainer/cli/main.hpp"')))

    def test_libraries_stay_in_their_rooms(self):
        for path in ("runtime/paging/a.cpp", "kernels/cpu/a.cpp", "simulator/cli/a.cpp", "trainer/weights/a.cpp"):
            self.assertEqual(1, len(self.plant(path, "#include <ATen/ATen.h>")), path)
        self.assertEqual([], self.plant("trainer/model.cpp", "#include <torch/torch.h>"))
        self.assertEqual(1, len(self.plant("trainer/a.cpp", "#include <cupti.h>")))
        self.assertEqual(1, len(self.plant("runtime/paging/a.cpp", "#  include <cuda_runtime.h>")))
        self.assertEqual([], self.plant("runtime/device/a.cpp", "#include <cuda_runtime.h>"))

    def test_a_file_outside_the_rooms_and_a_path_not_from_the_root_are_found(self):
        self.assertEqual(1, len(self.plant("runtime/attic/a.cpp", "")))
        self.assertEqual(1, len(self.plant("runtime/core/a.cpp", '#include "door.hpp"')))
        self.assertEqual(1, len(self.plant("runtime/core/a.cpp", '#include "fmt/format.h"')))


if __name__ == "__main__":
    unittest.main()
