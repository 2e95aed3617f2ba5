"""docs/reference/names.md and settings.md are what the code says, and leave nothing out."""

from __future__ import annotations

import dataclasses
import re

import pytest

import rechannel as rc
from rechannel.settings import Settings
from scripts.reference import names, settings
from scripts.reference.docstrings import arguments, fields, signature
from scripts.reference.live import LIVE
from scripts.reference_pages import FOLDER, PAGES
from tests.unit.test_public_names import GROUPS, ROOT


@pytest.fixture(scope="module")
def pages():
    return {name: page() for name, page in PAGES.items()}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name, pages):
    kept = (FOLDER / name).read_text(encoding="utf-8")
    assert kept == pages[name], "run python -m scripts.reference_pages"


def test_every_public_name_has_a_heading(pages):
    told = set(re.findall(r"^### (\S+)$", pages["names.md"], re.MULTILINE))
    root = {f"rc.{name}" for name in ROOT} - {"rc.__version__"}
    groups = {f"rc.{group}.{name}" for group, some in GROUPS.items() for name in some.split()}
    errors = {f"rc.errors.{name}" for name in rc.errors.__all__}
    kit = {f"testing.{name}" for name in rc.testing.__all__}
    modules = {f"rc.{group}" for group in (*GROUPS, "errors", "testing")} | {"rc.control.library"}
    assert (root | groups | errors | kit) - modules <= told


def test_every_setting_has_a_unit_and_a_meaning(pages):
    rows = re.findall(r"^\| `\w+` \| .*$", pages["settings.md"], re.MULTILINE)
    told = [cells for row in rows if len(cells := re.split(r"(?<!\\)\|", row)) == 7]
    assert len(told) > 100
    assert not [cells for cells in told if not all(cell.strip() for cell in cells[1:6])]
    names_told = {cells[1].strip().strip("`") for cells in told}
    assert {field.name for field in dataclasses.fields(Settings)} <= names_told


def test_what_changes_live_is_a_setting_and_is_changed_by_what_there_is():
    for key in LIVE:
        name, _, one = key.rpartition(".")
        assert key in settings.TABLES or one in settings._rows(settings.TABLES[name]), key
    for change in re.findall(r"rc\.changes\.(\w+)", " ".join(LIVE.values())):
        assert hasattr(rc.changes, change)
    for method in re.findall(r"`job\.(\w+)", " ".join(LIVE.values())):
        assert hasattr(rc.RunningJob, method)


@pytest.mark.parametrize("name", [n for n in settings.TABLES if n.startswith("Job.")])
def test_every_argument_of_a_start_is_explained(name):
    rows = settings._rows(settings.TABLES[name])
    assert all(words for _, _, words in rows.values())


def test_a_long_signature_has_a_line_per_parameter():
    assert signature("f", lambda a, /, b=1, *c, d=None: None) == "f(a, /, b=1, *c, d=None)"
    assert signature("rc.Job.start", rc.Job.start).startswith(
        "rc.Job.start(\n    self,\n    *,\n    takeover: bool"
    )


def test_arguments_are_read_from_a_docstring():
    def called(one, two, three):
        """Do it.

        Args:
            one, two: numbers
                of rows.
            three: text: any.

        Raises:
            ValueError: never.
        """

    many = "numbers of rows."
    assert arguments(called) == {"one": many, "two": many, "three": "text: any."}


def test_fields_of_bases_come_first_and_descriptions_count():
    found = fields(rc.strategies.fluid)
    assert list(found)[-1] == "bins"
    assert found["bins"] == ("int", "1", "Bins per step.")
    assert found["budget_ms"][2] == "Most milliseconds that moves may add to a timestep."


def test_streams_are_told_with_their_methods(pages):
    assert {f"### {kind.__name__}" for kind in names.STREAMS} <= set(pages["names.md"].splitlines())
    assert "\nKeyedStream.aggregate(" in pages["names.md"]
