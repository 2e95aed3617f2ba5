"""The programs in examples/ that need Spark print what their docstrings say."""

from __future__ import annotations

import ast
import inspect
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.children import environment
from tests.spark.programs import PATIENCE

EXAMPLES = Path(__file__).parents[2] / "examples"


def promised(docstring: str) -> str:
    """What a program says that it prints, as a pattern: `<...>` stands for what varies."""
    _, _, text = docstring.partition("Prints")
    lines = inspect.cleandoc(text.partition(":\n")[2])
    return re.escape(lines).replace(re.escape("<...>"), ".+?")


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", ["word_count", "payments_from_files"])
def test_a_program_prints_what_it_says(name, tmp_path, capsys):
    program = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    program["main"](tmp_path)
    assert re.fullmatch(promised(program["__doc__"]), capsys.readouterr().out.strip())


@pytest.mark.slow
def test_tasks_leave_a_slow_executor(tmp_path):
    """It has two executors, so it needs a session, and a process, of its own."""
    program = EXAMPLES / "placement.py"
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=tmp_path,
        env=environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    said = ast.get_docstring(ast.parse(program.read_text("utf-8")))
    assert re.fullmatch(promised(said or ""), done.stdout.strip()), done.stdout
