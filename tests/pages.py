"""Runs the examples of a page of the docs."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"


def run_page(name: str, **names: Any) -> int:
    """Run all of a page's programs in one piece, and compare what they print with what the page says.

    names: what the page takes for granted. Returns how many outputs were compared.
    """
    page = DOCS / f"{name}.md"
    blocks = re.findall(r"```(python|text)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
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
    assert "job" not in names or not names["job"].is_active
    return compared
