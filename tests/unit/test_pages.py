"""The examples of a page run, in one piece, and print what the page says."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from rechannel.dataflow.streams.cogroups import Cogrouped
from rechannel.dataflow.streams.keyed import KeyedStream
from rechannel.dataflow.streams.stream import Stream
from rechannel.dataflow.streams.windowed import WindowedStream
from tests.pages import DOCS, run_page


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("bad-data", 4),
        ("changelogs", 1),
        ("changing-a-stream", 5),
        ("controllers", 11),
        ("cookbook", 21),
        ("dashboard", 1),
        ("datasets", 2),
        ("event-time", 9),
        ("from-bytewax", 2),
        ("from-flink", 1),
        ("joins", 9),
        ("lakes", 2),
        ("latency", 1),
        ("process-function", 6),
        ("profiling", 12),
        ("querying-state", 3),
        ("replay", 5),
        ("rows-in-order", 4),
        ("scaling", 6),
        ("savepoints", 3),
        ("upgrading", 3),
        ("watching-a-job", 9),
    ],
)
def test_the_page_runs_as_it_is_written(name: str, answers: int, tmp_path: Path) -> None:
    assert run_page(name, state=tmp_path / "state") == answers


OPERATORS = (Stream, KeyedStream, WindowedStream, Cogrouped)
ELSEWHERE = {"name", "schema"}
"""Public names that are no operators."""


def run_by_tests() -> str:
    """All blocks that a test executes: those of the pages above, and that of the cookbook on Spark."""
    pages = (
        "bad-data",
        "changelogs",
        "changing-a-stream",
        "cookbook",
        "event-time",
        "joins",
        "process-function",
        "querying-state",
    )
    texts = (
        (DOCS / f"{name}.md").read_text(encoding="utf-8") for name in (*pages, "rows-in-order")
    )
    return "\n".join(
        block for text in texts for block in re.findall(r"```python.*?\n(.*?)```", text, re.DOTALL)
    )


def test_every_operator_is_in_an_example_that_is_run() -> None:
    names = {name for kind in OPERATORS for name in dir(kind) if not name.startswith("_")}
    fields = {field.name for kind in OPERATORS for field in dataclasses.fields(kind)}
    asked, run = names - fields - ELSEWHERE, run_by_tests()
    assert {"aggregate", "lookup", "transform", "cogroup", "apply_batches", "reduce"} <= asked
    assert not {name for name in asked if not re.search(rf"\.{name}\b", run)}


def test_the_cookbook_names_every_operator_and_its_links_lead_somewhere() -> None:
    text = (DOCS / "cookbook.md").read_text(encoding="utf-8")
    table = text.partition("## An example of every operator")[2].partition("\n## ")[0]
    names = {name for kind in OPERATORS for name in dir(kind) if not name.startswith("_")}
    fields = {field.name for kind in OPERATORS for field in dataclasses.fields(kind)}
    shown = set(re.findall(r"`\.?([a-z_]+)`", table))
    assert names - fields - ELSEWHERE - {"key_by", "window"} <= shown
    for page, anchor in re.findall(r"\]\(([a-z-]*(?:\.md)?)#([a-z-]+)\)", text):
        there = (DOCS / (page or "cookbook.md")).read_text(encoding="utf-8")
        titles = re.findall(r"^#+ (.*)$", there, re.MULTILINE)
        assert anchor in {slug(title) for title in titles}, f"{page}#{anchor}"


def slug(title: str) -> str:
    """What a title is called in links."""
    return re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")


def test_the_site_shows_every_block_as_code() -> None:
    """Other words after the language, without a title, make it show a block as text."""
    shown = re.compile(r'[a-z]*( title="[^"]+")?')
    wrong = {
        f"{page.name}: {begins}"
        for page in DOCS.rglob("*.md")
        for begins in re.findall(r"^ *```(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        if not shown.fullmatch(begins)
    }
    assert not wrong
