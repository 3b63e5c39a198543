"""notebooks/: they run as they stand, and lie in git without outputs."""

import os

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
    assert [path.name for path in NOTEBOOKS] == ["plan-a-7b-run.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_not_kept(path):
    """Clear them before a commit: figures would make every change of a notebook large and unreadable."""
    for cell in code_cells(read(path)):
        assert cell.outputs == [] and cell.execution_count is None, cell.source


def shown(notebook, kind):
    return [output["data"][kind] for cell in code_cells(notebook) for output in cell.outputs if kind in output.get("data", {})]


def printed(notebook):
    return "".join(output["text"] for cell in code_cells(notebook) for output in cell.outputs if output["output_type"] == "stream")


def test_a_7b_run_is_planned(program, tmp_path, monkeypatch):
    monkeypatch.setenv("OOMB_BIN", str(program("oomb-plan").parent))
    for name in ("IPYTHONDIR", "MPLCONFIGDIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
        os.mkdir(tmp_path / name)
    notebook = read(ROOT / "notebooks" / "plan-a-7b-run.ipynb")
    NotebookClient(notebook, timeout=TIMEOUT_SECONDS, kernel_name="python3",
                   resources={"metadata": {"path": str(ROOT / "notebooks")}}).execute()
    # A failed cell raises; figures and answers must be there, too.
    assert len(shown(notebook, "image/png")) == 4
    text = printed(notebook)
    assert "oomb-train --model models/qwen2.5-7b.json" in text and "s per step" in text
    for mode in ("resident", "lean", "both tiers", "all kept"):
        assert mode in text
