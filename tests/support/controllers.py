"""The controller that the pages on HTTP and on the command line name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

SOURCE = """
import rechannel as rc

class Rows(rc.control.OperatorHandler):
    def on_complete(self, task):
        return task.rows_in

class Grow(rc.control.Controller):
    def __init__(self, operator: str, most: int) -> None:
        self.operator = operator

    def on_init(self):
        return {"grown": 0}

    def on_begin(self, control):
        control.metric("grown", 0)
        return rc.control.operation(Rows(), operators=[self.operator])
"""


def shop_control(folder: Path, patched: pytest.MonkeyPatch) -> None:
    """Make `shop.control` importable from a new folder until the end of a test."""
    (folder / "shop").mkdir(parents=True)
    (folder / "shop" / "control.py").write_text(SOURCE, encoding="utf-8")
    patched.syspath_prepend(folder)
    for name in ("shop", "shop.control"):
        patched.delitem(sys.modules, name, raising=False)
