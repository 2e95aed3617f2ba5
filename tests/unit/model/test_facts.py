"""Values that users read: attributes, a dict, a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from rechannel.model.facts import Facts
from rechannel.model.html import MOST_ROWS, table


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(Facts):
    rows: int
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole(Facts):
    name: str
    parts: Mapping[str, Part]
    offsets: Mapping[str, Any]


VALUE = Whole(
    name="a<b",
    parts={"one": Part(rows=1_000, text=None)},
    offsets={"files": {"end": [1, 2]}},
)


def test_a_value_is_a_dict_of_plain_values_and_back() -> None:
    fields = {
        "name": "a<b",
        "parts": {"one": {"rows": 1_000, "text": None}},
        "offsets": {"files": {"end": [1, 2]}},
    }
    assert VALUE.to_dict() == fields
    assert Whole.from_dict(fields) == VALUE


def test_other_fields_are_refused() -> None:
    with pytest.raises(TypeError, match="expected int, found 'many'"):
        Part.from_dict({"rows": "many", "text": None})


def test_a_notebook_shows_a_table() -> None:
    html = VALUE._repr_html_()
    assert html.startswith("<table><caption><b>Whole</b>")
    for part in ("a&lt;b", "1,000", "<th", "offsets"):
        assert part in html
    assert "a<b" not in html


def test_a_long_table_ends_with_a_count() -> None:
    html = table("", {str(number): number for number in range(MOST_ROWS + 5)})
    assert "5 more" in html
    assert html.count("<tr>") == MOST_ROWS + 1
