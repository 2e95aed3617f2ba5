"""The page of advice: its figures are those of the advice, and nothing in it is fetched or executed by mistake."""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from dataclasses import replace

import pytest

from rechannel.scaling.files.advice import as_record
from rechannel.scaling.files.spark.words import query_sentences
from rechannel.scaling.needs.values import StreamAdvice
from rechannel.scaling.report.api import page_of, write_advice
from rechannel.scaling.report.page import page_html, script
from rechannel.scaling.report.parts import Bar, Chart, Table
from tests.unit.scaling.report.advised import DECISIONS, EVIL, of_ds2, of_logs, of_stream


def data_of(text):
    packed = re.search(r'id="data">([^<]*)</script>', text)[1]
    return json.loads(zlib.decompress(base64.b64decode(packed)))


def parts(page, section, kind):
    [found] = [each for each in page.sections if each.id == section]
    return [part for part in found.parts if isinstance(part, kind)]


def table(page, section):
    """The rows of a section's table, as objects."""
    [made] = parts(page, section, Table)
    return [dict(zip(made.heads, row, strict=True)) for row in made.rows]


@pytest.fixture(scope="module")
def made():
    return of_stream()


def test_the_page_carries_the_advice(made):
    text = page_html(page_of(made))
    assert data_of(text) == json.loads(json.dumps(made.to_dict()))
    ids = re.findall(r'<section id="(\w+)"', text)
    assert ids == ["advice", "operators", "cores", "costs", "time", "decisions"]


def test_operators_have_a_row_with_their_numbers(made):
    rows = {row["operator"]: row for row in table(page_of(made), "operators")}
    assert list(rows) == ["in", "counts"]
    of, row = made.operators["counts"], rows["counts"]
    assert (row["tasks"], row["advised"]) == (str(of.instances), str(of.advised))
    most = max(each.high for each in made.operators.values())
    assert row[""] == Bar(present=2, advised=of.advised, low=of.low, high=of.high, most=most)
    assert row["target, rows/s"] == "3,000"


def test_the_curve_has_now_and_advised(made):
    [chart] = parts(page_of(made), "cores", Chart)
    needs = made.needs
    assert chart.lines[0].points == tuple((p.cores, p.timestep_ms) for p in needs.curve)
    assert chart.bands[0].points == tuple((p.cores, p.low_ms, p.high_ms) for p in needs.curve)
    times = {point.cores: point.timestep_ms for point in needs.curve}
    now, advised = chart.marks
    assert (now.name, now.at) == ("now, at this load", (2, times[2]))
    assert (advised.at, advised.advised) == ((10, times[10]), True)
    assert chart.levels[0].y == 800
    measured = of_stream(rate=None, backlog=0)
    [chart] = parts(page_of(measured), "cores", Chart)
    assert (chart.marks[0].name, chart.marks[0].at) == (
        "now, measured", (2, measured.needs.timestep_ms),
    )  # fmt: skip


def test_tasks_are_drawn_with_the_line_through_them(made):
    charts = {chart.title: chart for chart in parts(page_of(made), "costs", Chart)}
    of = made.operators["counts"]
    chart = charts["counts"]
    assert chart.dots[0].points == of.points
    (start, fixed), (end, there) = chart.lines[0].points
    assert (start, fixed) == (0, of.cost.fixed_ms)
    assert there == pytest.approx(of.cost.fixed_ms + of.cost.row_ms * end)
    assert f"{made.needs.hangs_on} (most hangs on it)" in charts


def test_windows_and_decisions_are_drawn_over_time(made):
    page = page_of(made)
    charts = {chart.title: chart for chart in parts(page, "time", Chart)}
    assert set(charts) == {"Load", "Backlog", "Timesteps, the median of each window", "Tasks"}
    window = made.needs.windows[0]
    assert charts["Load"].lines[0].points[0] == (window.start_ms / 1e3, window.arrived_per_s)
    assert [(event.x, event.strong) for event in charts["Tasks"].events] == [(9, False), (20, True)]
    latest, first = table(page, "decisions")
    assert latest["wanted"] == "counts: 4 tasks; 2 executors; rebalance(operator='counts')"
    assert latest["what became of it"] == DECISIONS[1].became
    assert (first["outcome"], first["UTC"]) == ("enough", "00:00:09")
    assert first["controller"] == "autoscale (only advises)"


def test_names_are_text_and_nothing_is_fetched():
    made = of_stream(EVIL)
    operators = {EVIL: made.operators["counts"], "in": made.operators["in"]}
    text = page_html(page_of(replace(made, operators=operators, notes=(EVIL,))))
    assert EVIL not in text
    assert html.escape(EVIL) in text
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)=|url\(|@import|fetch\(|import\(", text)
    assert "</script" not in script()


def test_a_stream_of_which_nothing_is_known():
    made = replace(of_stream(), needs=None, operators={}, notes=("no task was measured yet",))
    text = page_html(page_of(made))
    assert "Nothing was measured." in text
    assert "<li>No task was measured yet.</li>" in text
    assert re.findall(r'<section id="(\w+)"', text) == ["decisions"]


def test_files_of_ds2(tmp_path):
    made = of_ds2(tmp_path / "word-count")
    page = page_of(made)
    rows = {row["operator"]: row for row in table(page, "operators")}
    assert (rows["FlatMap"]["instances"], rows["FlatMap"]["advised"]) == ("2", "1")
    [chart] = parts(page, "time", Chart)
    lines = {line.name: [y for _, y in line.points] for line in chart.lines}
    assert lines == {
        name: [float(epoch.operators[name].advised) for epoch in made.epochs]
        for name in ("FlatMap", "Count")
    }
    write_advice(made, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert data_of(text) == json.loads(json.dumps(as_record(made)))


def test_event_logs_of_spark():
    made = of_logs()
    page = page_of(made)
    [stream] = parts(page, "query-0", Chart)
    assert stream.lines[0].points == ((1, 2_700), (2, 1_500), (4, 900))
    assert [mark.at for mark in stream.marks] == [(1, 2_600), (2, 1_500)]
    [jobs] = parts(page, "jobs", Chart)
    assert jobs.lines[0].points == ((1, 100), (2, 60), (4, 40), (8, 30))
    assert [mark.at for mark in jobs.marks] == [(4, 40), (8, 30)]
    text = page_html(page)
    for sentence in [*query_sentences(made.queries[0])][:2]:
        assert html.escape(sentence) in text
    assert data_of(text)["kind"] == "spark"


def test_advice_is_printed_in_words():
    made = of_stream()
    lines = str(made).splitlines()
    assert lines[0] == f"shop: {made.needs.why}"
    assert [each.sentence for each in made.operators.values()] == lines[1 : 1 + len(made.operators)]
    assert lines[-1] == "autoscale: changed: counts 2 -> 4: more rows arrive"
    assert "nothing was measured" in str(StreamAdvice(title="new"))
