"""The page on the JSON of advice names its members, no more and no less."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from rechannel.scaling.decided import Decided
from rechannel.scaling.files.advice import EpochAdvice, OperatorAdvice, ScalingAdvice, as_record
from rechannel.scaling.files.spark.advice import (
    JobsAdvice,
    LogAdvice,
    Predicted,
    QueryAdvice,
    Replayed,
    StageCost,
)
from rechannel.scaling.needs.values import (
    Amount,
    ControllerDecisions,
    CostFit,
    CurvePoint,
    OperatorNeed,
    StreamAdvice,
    StreamNeeds,
    WindowFigures,
)

PAGE = (Path(__file__).parents[4] / "docs/formats/advice.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^##+ ([^\n]+)\n\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
EVERY = {"kind", "title", "notes"}


def members(text: str) -> set[str]:
    """Names in the first column of a section's table."""
    rows = re.findall(r"^\| (`.+?) \|", text, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def names(kind) -> set[str]:
    return {each.name for each in fields(kind)}


def test_every_advice_has_the_same_beginning():
    assert members(PAGE[: PAGE.index("\n## ")]) == EVERY


@pytest.mark.parametrize(
    ("section", "kind"),
    [
        ("A stream", StreamAdvice),
        ("An operator", OperatorNeed),
        ("The whole stream", StreamNeeds),
        ("A decision", Decided),
        ("A query", QueryAdvice),
    ],
)
def test_a_table_has_every_member(section, kind):
    assert members(SECTIONS[section]) == names(kind) - (EVERY if kind is StreamAdvice else set())


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ("`cost`", CostFit),
        ("`cores`, `executors`", Amount),
        ("`windows`", WindowFigures),
        ("`curve`", CurvePoint),
        ("`controllers`", ControllerDecisions),
        ("`epochs`", EpochAdvice),
    ],
)
def test_a_row_has_every_member_of_its_part(row, kind):
    [line] = [line for line in PAGE.splitlines() if line.startswith(f"| {row} |")]
    assert set(re.findall(r"`(\w+)`", line)) >= names(kind)


def test_files_of_ds2():
    record = as_record(ScalingAdvice(title="t", operators={}, epochs=()))
    assert members(SECTIONS["Files of DS2"]) == set(record) - EVERY
    [line] = [line for line in SECTIONS["Files of DS2"].splitlines() if "| `operators`" in line]
    assert set(re.findall(r"`(\w+)`", line)) == {*names(OperatorAdvice), "operators", "sentence"}


def test_the_members_of_an_event_log_are_named():
    text = SECTIONS["An event log of Spark"]
    assert members(text) == names(LogAdvice) - EVERY | {"sentences"}
    (jobs,) = re.findall(r"^\| `jobs` .*$", text, re.MULTILINE)
    assert names(JobsAdvice) | names(Replayed) <= set(re.findall(r"`(\w+)`", jobs))


@pytest.mark.parametrize(("row", "kind"), [("`stages`", StageCost), ("`now`", Predicted)])
def test_the_members_of_a_query_are_named(row, kind):
    (line,) = [each for each in SECTIONS["A query"].splitlines() if each.startswith(f"| {row}")]
    assert names(kind) <= set(re.findall(r"`(\w+)`", line))
