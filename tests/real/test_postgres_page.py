"""The page on PostgreSQL, with a server."""

from __future__ import annotations

import re

from tests.pages import DOCS, run_page


def test_the_page_runs_as_it_is_written(own_postgres, tmp_path):
    page = (DOCS / "postgresql.md").read_text(encoding="utf-8")
    tables, marks = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    for statement in filter(str.strip, (tables + marks).split(";")):
        own_postgres.ask(statement)
    assert run_page("postgresql", state=tmp_path / "state", url=own_postgres.url) == 1
    assert own_postgres.ask("SELECT count(*) FROM rechannel_marks") == [(2,)]
    assert own_postgres.ask('SELECT "user", amount FROM clicks ORDER BY 1, 2') == [
        ("ann", 2),
        ("ann", 3),
        ("bob", 5),
    ]
