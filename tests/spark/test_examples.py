"""The program in examples/ that needs Spark prints what its docstring says."""

from __future__ import annotations

import inspect
import runpy
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "examples" / "word_count.py"


@pytest.mark.usefixtures("spark")
def test_words_are_counted(tmp_path, capsys):
    program = runpy.run_path(str(PROGRAM))
    program["main"](tmp_path)
    promised = inspect.cleandoc(program["__doc__"].partition("Prints:")[2])
    assert capsys.readouterr().out.strip() == promised
