"""Every program in examples/ runs and prints what its docstring says."""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(path.stem for path in EXAMPLES.glob("*.py"))
ON_SPARK = {"payments_from_files", "placement", "word_count"}
"""Run by tests/spark/test_examples.py."""


def check(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    program["main"](folder)
    promised = inspect.cleandoc(program["__doc__"].partition("Prints:")[2])
    assert capsys.readouterr().out.strip() == promised


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in ON_SPARK])
def test_a_program_prints_what_it_says(name, tmp_path, capsys):
    check(name, tmp_path, capsys)


def test_the_list_has_every_program():
    listed = re.findall(
        r"^\| \[(\w+)\.py\]\(\1\.py\)", (EXAMPLES / "README.md").read_text("utf-8"), re.M
    )
    assert sorted(listed) == PROGRAMS
