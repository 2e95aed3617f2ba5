"""The tables of changes in docs/ are those that the registry makes."""

from __future__ import annotations

import pytest

from scripts.change_tables import DOCS, PAGES, with_tables


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_the_tables_of_the_registry(name):
    page = (DOCS / name).read_text(encoding="utf-8")
    assert "<!-- changes: " in page
    assert with_tables(page) == page, "run scripts/change_tables.py"


def test_a_table_is_made_anew_between_its_marks():
    page = "before\n\n<!-- changes: http -->\n\nstale\n\n<!-- end -->\nafter\n"
    made = with_tables(page)
    assert made.startswith("before\n\n<!-- changes: http -->\n\n| `kind` | fields |\n")
    assert made.endswith("|\n\n<!-- end -->\nafter\n")
    assert "stale" not in made
