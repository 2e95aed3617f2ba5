"""Every record is written as it was before there was a codec, and read again; so are the forms of before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.records.values import values
from tests.records.writing import READERS, text_of

RECORDS = Path(__file__).parents[1] / "records"
RECORDED = json.loads((RECORDS / "recorded.json").read_text())
EARLIER = json.loads((RECORDS / "earlier.json").read_text())

MADE = [
    pytest.param(kind, value, RECORDED[kind][number], id=f"{kind}-{number}")
    for kind, made in values().items()
    for number, value in enumerate(made)
]
TEXTS = [
    pytest.param(kind, text, id=f"{kind}-{number}")
    for kind, texts in RECORDED.items()
    for number, text in enumerate(texts)
]
PAIRS = [
    pytest.param(kind, before, after, id=f"{kind}-{number}")
    for kind, pairs in EARLIER.items()
    for number, (before, after) in enumerate(pairs)
]


def test_all_that_was_recorded_is_still_made():
    assert {kind: len(made) for kind, made in values().items()} == {
        kind: len(texts) for kind, texts in RECORDED.items()
    }


@pytest.mark.parametrize(("kind", "value", "text"), MADE)
def test_a_record_is_written_as_it_was(kind, value, text):
    assert text_of(kind, value) == text


@pytest.mark.parametrize(("kind", "text"), TEXTS)
def test_what_was_written_is_read_and_written_again(kind, text):
    assert text_of(kind, READERS[kind](text)) == text


@pytest.mark.parametrize(("kind", "before", "after"), PAIRS)
def test_earlier_forms_are_read(kind, before, after):
    assert text_of(kind, READERS[kind](before)) == after
