#!/usr/bin/env python3
"""Write the table of findings in docs/profiling.md, from the causes that there are.

The table stands between `<!-- findings -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
from pathlib import Path

from rechannel.profiling.model.causes import CAUSES

PAGE = Path(__file__).parent.parent / "docs" / "profiling.md"


def table() -> str:
    """The table: a row per cause."""
    head = ["| finding | what it means | what to change |", "| -- | -- | -- |"]
    rows = [f"| `{name}` | {each.means} | {each.change} |" for name, each in CAUSES.items()]
    return "\n".join([*head, *rows])


def with_table(page: str) -> str:
    """The text of a page with its table made anew."""
    between = re.compile(r"(<!-- findings -->).*?(<!-- end -->)", re.DOTALL)
    return between.sub(lambda found: f"{found[1]}\n\n{table()}\n\n{found[2]}", page)


def main() -> None:
    """Write the page."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(with_table(text), encoding="utf-8")


if __name__ == "__main__":
    main()
