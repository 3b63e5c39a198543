"""The Hopper kernels keep all in registers, and ptxas runs no wgmma of theirs one by one: it says either only in passing."""

import os
import re
import subprocess
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "kernels" / "cuda" / "hopper").glob("*.cu"))
FLAGS = ["-std=c++20", "-O3", "-gencode", "arch=compute_90a,code=sm_90a", "--expt-relaxed-constexpr", "-I", str(ROOT), "-Xptxas", "-v"]


def assembled(source):
    """What ptxas says of a source."""
    command = [os.environ["OOMB_NVCC"], *FLAGS, "-cubin", "-o", os.devnull, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


class Registers(unittest.TestCase):
    def test_nothing_spills_and_no_product_is_serialised(self):
        self.assertGreaterEqual(len(SOURCES), 3)
        with ThreadPoolExecutor(2) as pool:
            results = list(pool.map(assembled, SOURCES))
        for source, (code, text) in zip(SOURCES, results):
            with self.subTest(source=source.name):
                self.assertEqual(code, 0, text)
                spills = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", text)
                self.assertTrue(spills)
                self.assertEqual({number for kernel in spills for number in kernel}, {"0"}, text)
                self.assertEqual(re.findall(r"\(C7\d+\).*", text), [])


if __name__ == "__main__":
    unittest.main()
