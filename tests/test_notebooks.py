"""Every notebook runs from top to bottom without warnings, and is kept as it came out of a run."""

import re
import shutil
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="notebooks are read by nbformat")
pytest.importorskip("ipykernel", reason="notebooks are run by ipykernel")
nbclient = pytest.importorskip("nbclient", reason="notebooks are run by nbclient")

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)

SECONDS = 600
"""For one cell: many times what the slowest takes, so that only a cell that hangs exceeds it."""


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def printed_to_stderr(cell):
    return "".join(
        output.text
        for output in cell.outputs
        if output.output_type == "stream" and output.name == "stderr"
    )


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_without_warnings(path, tmp_path):
    copy = Path(shutil.copy(path, tmp_path))
    notebook = nbformat.read(copy, as_version=4)
    client = nbclient.NotebookClient(
        notebook,
        timeout=SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},  # files it writes stay there
    )
    client.execute()  # raises at the first cell that fails, and shows it
    warned = {
        f"cell {number}": text
        for number, cell in enumerate(code_cells(notebook), start=1)
        if "Warning" in (text := printed_to_stderr(cell))
    }
    assert not warned


@every_notebook
def test_notebook_holds_the_outputs_of_one_run(path):
    cells = code_cells(nbformat.read(path, as_version=4))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not any(printed_to_stderr(cell) for cell in cells)


@every_notebook
def test_notebook_has_no_paths_of_the_machine_it_ran_on(path):
    notebook = nbformat.read(path, as_version=4)
    assert notebook.metadata.kernelspec.name == "python3"
    for cell in code_cells(notebook):
        text = "\n".join(
            output.get("text", "") + "".join(map(str, output.get("data", {}).values()))
            for output in cell.outputs
            if "image/png" not in output.get("data", {})
        )
        assert not re.search(r"(/home|/root|/tmp|/Users|[A-Z]:\\)[/\\]?\w", text)
