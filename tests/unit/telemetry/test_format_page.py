"""The page on the format names what is written, no more and no less."""

import dataclasses
import re
from pathlib import Path

import pytest

from rechannel.telemetry.events import EVENTS, FORMAT
from rechannel.telemetry.task_finished import Kept, SegmentWritten, Sent, SparkMetrics, SparkTaskId

PAGE = (Path(__file__).parents[3] / "docs/formats/telemetry.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (\w+)\n(.*?)(?=^### |\Z)", PAGE, re.MULTILINE | re.DOTALL))
DEFAULTS = {
    "null": None,
    '""': "",
    "{}": {},
    "[]": (),
    "0": 0,
    "false": False,
    "": dataclasses.MISSING,
}


def described(text):
    """(field, default) of every row of a section's tables, one table after the other."""
    tables = []
    for row in re.findall(r"^\| (.+?) \| .+? \| (.*?) ?\| .*\|$", text, re.MULTILINE):
        if row[0] == "field":
            tables.append({})
        elif names := re.findall(r"`(\w+)`", row[0]):
            tables[-1] |= dict.fromkeys(names, DEFAULTS[row[1]])
    return tables


def declared(cls):
    return {
        f.name: f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
        for f in dataclasses.fields(cls)
    }


def test_the_page_is_about_this_format():
    assert f"# Telemetry, format {FORMAT}\n" in PAGE
    assert f'{{"format":{FORMAT},' in PAGE


def test_every_event_has_its_section():
    assert set(SECTIONS) == {event.KIND for event in EVENTS}


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.KIND)
def test_fields_and_defaults(event):
    assert described(SECTIONS[event.KIND])[0] == declared(event)


def test_fields_of_parts():
    section = SECTIONS["task_finished"]
    assert described(section)[1] == declared(SparkMetrics)
    for name, cls in [
        ("segments", SegmentWritten),
        ("sent", Sent),
        ("kept", Kept),
        ("spark_task", SparkTaskId),
    ]:
        (row,) = re.findall(rf"^\| `{name}` \|.*$", section, re.MULTILINE)
        assert set(re.findall(r"`(\w+)`", row)) == {name, *declared(cls)}
