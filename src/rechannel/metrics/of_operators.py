"""Metrics of operators: what they did, what they keep, and their bad rows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rechannel.metrics.metric import Kind, Labels, Metric, of_each
from rechannel.metrics.seen import Seen
from rechannel.monitoring import OperatorStatus
from rechannel.telemetry.totals import JudgedTotals, OperatorTotals


def _state(
    name: str,
    prometheus: str,
    unit: str,
    words: str,
    figure: Callable[[OperatorStatus], float | None],
) -> Metric:
    return Metric(
        name=f"rechannel.operator.{name}",
        prometheus=f"rechannel_operator_{prometheus}",
        kind=Kind.GAUGE,
        unit=unit,
        words=words,
        labels=("operator",),
        read=of_each(lambda seen: seen.status.operators, figure),
    )


def _judged(
    name: str, prometheus: str, words: str, figure: Callable[[JudgedTotals], float]
) -> Metric:
    return Metric(
        name=name,
        prometheus=prometheus,
        kind=Kind.COUNTER,
        unit="{row}",
        words=words,
        labels=("operator",),
        read=of_each(lambda seen: seen.sums.judged, figure),
    )


def _times(seen: Seen) -> Iterator[tuple[Labels, float]]:
    for operator, totals in seen.sums.operators.items():
        for activity, spent in totals.seconds.items():
            yield (operator, activity), spent


def _failed(seen: Seen) -> Iterator[tuple[Labels, float]]:
    for operator, judged in seen.sums.judged.items():
        for expectation, rows in judged.failed.items():
            yield (operator, expectation), rows


_SUMS: tuple[tuple[str, str, str, str, Callable[[OperatorTotals], int]], ...] = (
    ("rows.in", "rows_in", "{row}", "Rows that came in.", lambda each: each.rows_in),
    ("rows.out", "rows_out", "{row}", "Rows that went out.", lambda each: each.rows_out),
    (
        "rows.late",
        "rows_late",
        "{row}",
        "Rows that came too late for their window.",
        lambda each: each.rows_late,
    ),
    (
        "rows.dead",
        "rows_dead",
        "{row}",
        "Rows that left as dead letters.",
        lambda each: each.rows_dead,
    ),
    (
        "received",
        "received_bytes",
        "By",
        "Bytes that its tasks were given.",
        lambda each: each.bytes_in,
    ),
    ("sent", "sent_bytes", "By", "Bytes that its tasks gave on.", lambda each: each.bytes_out),
)
"""Both names without what they begin with, unit, words, and the figure."""


def sums_of(totals: OperatorTotals) -> dict[str, int]:
    """Return what an operator did, under the names of its metrics."""
    return {f"rechannel.operator.{name}": figure(totals) for name, _, _, _, figure in _SUMS}


METRICS = (
    *(
        Metric(
            name=f"rechannel.operator.{name}",
            prometheus=f"rechannel_operator_{prometheus}",
            kind=Kind.COUNTER,
            unit=unit,
            words=words,
            labels=("operator",),
            read=of_each(lambda seen: seen.sums.operators, figure),
        )
        for name, prometheus, unit, words, figure in _SUMS
    ),
    Metric(
        name="rechannel.operator.task.time",
        prometheus="rechannel_operator_task_seconds",
        kind=Kind.COUNTER,
        unit="s",
        words="Time of its tasks, by what they did.",
        labels=("operator", "activity"),
        read=_times,
    ),
    _state("tasks", "tasks", "{task}", "Tasks of the next timestep.", lambda each: each.tasks),
    Metric(
        name="rechannel.operator.bins",
        prometheus="rechannel_operator_bins",
        kind=Kind.GAUGE,
        unit="{bin}",
        words="Bins of state.",
        labels=("operator",),
        read=of_each(lambda seen: seen.bins, lambda bins: bins),
    ),
    _state("state.rows", "state_rows", "{row}", "Rows of state.", lambda each: each.state_rows),
    _state("state.size", "state_bytes", "By", "Size of state.", lambda each: each.state_bytes),
    _state(
        "watermark.timestamp",
        "watermark_timestamp_seconds",
        "s",
        "Event time up to which it expects no more rows, in Unix time.",
        lambda each: None if each.watermark_ms is None else each.watermark_ms / 1e3,
    ),
    _state(
        "event_time.lag",
        "event_time_lag_seconds",
        "s",
        "How much earlier its watermark is than the time of the driver.",
        lambda each: each.event_time_lag_s,
    ),
    _judged(
        "rechannel.judged.rows",
        "rechannel_judged_rows",
        "Rows of operators that have dead letters or expectations.",
        lambda each: each.rows,
    ),
    _judged(
        "rechannel.bad.rows",
        "rechannel_bad_rows",
        "Those of them that are dead letters, or do not meet an expectation.",
        lambda each: each.bad,
    ),
    Metric(
        name="rechannel.expectation.failed.rows",
        prometheus="rechannel_expectation_failed_rows",
        kind=Kind.COUNTER,
        unit="{row}",
        words="Rows that do not meet an expectation.",
        labels=("operator", "expectation"),
        read=_failed,
    ),
)
