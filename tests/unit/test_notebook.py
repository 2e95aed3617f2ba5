"""The notebook in examples/ runs, and what it shows is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "stream_in_a_notebook.ipynb"


@pytest.fixture(scope="module")
def outputs() -> dict[str, list[Any]]:
    """By the source of a cell: the data that it shows, by kind of content."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "it is kept without outputs"
    client = NotebookClient(notebook, timeout=120)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT / "src"))
        done = client.execute()
    return {
        cell.source: [each["data"] for each in cell.get("outputs", ()) if "data" in each]
        for cell in done.cells
    }


@pytest.mark.parametrize(
    ("last_line", "shows"),
    [
        ("users", "<svg"),
        ("program", "<svg"),
        ("program.explain(in_process=rc.InProcess())", "Stage users"),
        ("job", "JobStatus"),
        ("job.live(seconds=1, every=0.5)", "duration of timesteps 1 to 20"),
        ('job.plan(rc.changes.rescale("users", tasks=4))', "128 bins"),
        ("change", "ReconfigurationSummary"),
        ('job.sql("SELECT * FROM users ORDER BY n, worst").to_pandas()', "user-6"),
    ],
)
def test_a_cell_shows(outputs: dict[str, list[Any]], last_line: str, shows: str) -> None:
    (found,) = [data for source, data in outputs.items() if source.splitlines()[-1] == last_line]
    (data,) = found
    assert shows in data["text/html"]


def test_a_plan_to_deploy_shows_what_becomes_of_each_part(outputs: dict[str, list[Any]]) -> None:
    (found,) = [data for source, data in outputs.items() if "plan_deploy" in source]
    assert "operator  users" in found[0]["text/html"]
