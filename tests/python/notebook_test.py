"""notebooks/: they run as they stand, and lie in git without outputs."""

import os
import re

import nbformat
import pytest
from nbclient import NotebookClient

from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
TIMEOUT_SECONDS = 300


def read(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_there_are_notebooks():
    assert [path.name for path in NOTEBOOKS] == ["plan-a-7b-run.ipynb", "read-a-profile.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_not_kept(path):
    """Clear them before a commit: figures would make every change of a notebook large and unreadable."""
    for cell in code_cells(read(path)):
        assert cell.outputs == [] and cell.execution_count is None, cell.source


def shown(notebook, kind):
    return [output["data"][kind] for cell in code_cells(notebook) for output in cell.outputs if kind in output.get("data", {})]


def printed(notebook):
    return "".join(output["text"] for cell in code_cells(notebook) for output in cell.outputs if output["output_type"] == "stream")


@pytest.fixture
def executed(program, tmp_path, monkeypatch):
    """Runs a notebook; a failed cell raises."""
    for name in ("IPYTHONDIR", "MPLCONFIGDIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
        os.mkdir(tmp_path / name)

    def run(name, *programs):
        monkeypatch.setenv("OOMB_BIN", str([program(each) for each in programs][0].parent))
        notebook = read(ROOT / "notebooks" / name)
        NotebookClient(notebook, timeout=TIMEOUT_SECONDS, kernel_name="python3",
                       resources={"metadata": {"path": str(ROOT / "notebooks")}}).execute()
        return notebook

    return run


def test_a_7b_run_is_planned(executed):
    notebook = executed("plan-a-7b-run.ipynb", "oomb-plan")
    assert len(shown(notebook, "image/png")) == 4
    text = printed(notebook)
    assert "oomb-train --model models/qwen2.5-7b.json" in text and "s per step" in text
    for mode in ("resident", "lean", "both tiers", "all kept"):
        assert mode in text


def test_a_profile_is_read(executed):
    """What the text of the notebook says of the recording is what its cells find."""
    notebook = executed("read-a-profile.ipynb", "oomb-profile", "oomb-plan")
    assert len(shown(notebook, "image/png")) == 5
    text = printed(notebook)
    assert "compute 380.20 + exposed 1.45 + idle 6.87 = span 388.52 ms" in text
    assert "linear layers 75 %, attention 19 %, other compute 6 %" in text
    assert "46.1 us at 136.06 ms: backward of chunk 3, embedding_backward -> forward of chunk 2, embedding" in text
    # No copy held anything up: all had arrived long before, and none is on the critical path.
    arrived = [float(number) for number in re.findall(r"had arrived (\S+) ms before", text)]
    assert len(arrived) == 5 and min(arrived) > 1
    assert "engines on the critical path: compute\n" in text and "  0.00 ms  waiting for the host" in text
    assert "6.50 ms  launches" in text and "1.63 ms  between kernels" in text
    # Predicted, by events, by the GPU's time stamps; the traced steps; replayed.
    assert re.search(r"predicted +events +CUPTI", text) and re.search(r"\n  step +\d+ ms +388 ms +388 ms", text)
    assert "step 2: 370 ms" in text and "step 3: 388 ms" in text and "error +0.00 %" in text
