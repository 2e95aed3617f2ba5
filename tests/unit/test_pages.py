"""The examples of a page run, in one piece, and print what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("changing-a-stream", 4),
        ("cookbook", 12),
        ("event-time", 9),
        ("joins", 8),
        ("querying-state", 3),
        ("rows-in-order", 4),
    ],
)
def test_the_page_runs_as_it_is_written(name: str, answers: int, tmp_path: Path) -> None:
    page = DOCS / f"{name}.md"
    blocks = re.findall(r"```(python|text)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {"state": tmp_path / "state"}
    printed = ""
    compared = 0
    for kind, text in blocks:
        if kind == "text":
            pattern = re.escape(text).replace(re.escape("<...>"), r".+?")
            assert re.fullmatch(pattern, printed), f"printed:\n{printed}\nthe page says:\n{text}"
            compared += 1
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(text, str(page), "exec"), names)
        printed = out.getvalue()
    assert compared == answers
    assert not names["job"].is_active
