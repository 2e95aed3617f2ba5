"""Each metric has two names by one rule, and what OpenTelemetry and Prometheus want of them."""

from __future__ import annotations

import re

import pytest

from rechannel.metrics.metric import ATTRIBUTES, Kind, Metric
from rechannel.metrics.registry import DURATIONS, METRICS
from tests.pages import DOCS

EVERY = (*METRICS, *DURATIONS)
SUFFIX = {"s": "_seconds", "By": "_bytes"}
OTHERWISE = {
    "rechannel.operator.task.time": "rechannel_operator_task_seconds",
    "rechannel.operator.state.size": "rechannel_operator_state_bytes",
    "rechannel.source.backlog": "rechannel_source_backlog_rows",
    "rechannel.source.lag.size": "rechannel_source_lag_bytes",
    "rechannel.source.lag.time": "rechannel_source_lag_seconds",
    "rechannel.sink.unpublished": "rechannel_sink_unpublished_timesteps",
    "rechannel.timestep.number": "rechannel_timestep",
}
"""Names that Prometheus had before there was the other one."""


def test_names_are_unique_in_both_forms():
    assert len({each.name for each in EVERY}) == len(EVERY)
    assert len({each.prometheus for each in EVERY}) == len(EVERY)


@pytest.mark.parametrize("metric", EVERY, ids=lambda each: each.name)
def test_both_names_say_the_same(metric):
    by_rule = metric.name.replace(".", "_") + SUFFIX.get(metric.unit, "")
    assert metric.prometheus == OTHERWISE.get(metric.name, by_rule)


@pytest.mark.parametrize("metric", EVERY, ids=lambda each: each.name)
def test_names_and_units_are_as_opentelemetry_wants_them(metric):
    assert re.fullmatch(r"rechannel(\.[a-z]+(_[a-z]+)*)+", metric.name)
    assert re.fullmatch(r"s|By|1|\{[a-z]+\}|", metric.unit)
    assert metric.words.endswith(".")
    assert not metric.name.endswith((".total", ".count"))
    assert set(metric.labels) <= ATTRIBUTES.keys()


def test_no_name_is_the_namespace_of_another_metric_of_a_job():
    """OpenTelemetry advises against it: `rechannel.timestep` beside `rechannel.timestep.duration`."""
    names = {each.name for each in EVERY}
    assert [a for a in sorted(names) for b in names if b.startswith(f"{a}.")] == []


def test_the_page_names_every_metric_and_no_other():
    page = (DOCS / "watching-a-job.md").read_text(encoding="utf-8")
    section = page.partition("\n## OpenTelemetry\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(rechannel\.[a-z_.]+)` \| (.*?) \| (.*?) \| (.*?) \|$", section, re.M)
    assert [(name, unit.strip("` "), kind, others) for name, unit, kind, others in rows] == [
        (
            each.name,
            each.unit,
            each.kind if isinstance(each, Metric) else "histogram",
            ", ".join(f"`{ATTRIBUTES[label]}`" for label in each.labels),
        )
        for each in EVERY
    ]


def test_a_label_without_an_attribute_is_refused():
    with pytest.raises(
        ValueError, match=r"rechannel.a has labels without an attribute: \['colour'\]"
    ):
        Metric(
            name="rechannel.a",
            prometheus="rechannel_a",
            kind=Kind.GAUGE,
            words="A.",
            labels=("colour",),
            read=lambda seen: (),
        )


def test_attributes_are_unique():
    assert len(set(ATTRIBUTES.values())) == len(ATTRIBUTES)
