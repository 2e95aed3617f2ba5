"""One screen of a running job, from the answers of its server. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rechannel.cli.screen import count, size, table
from rechannel.telemetry.words import lag_of_time, lag_words

BARS = "▁▂▃▄▅▆▇█"
FULL, EMPTY = "█", "░"
WIDTH = 24


def frame(facts: dict[str, Any]) -> Group:
    """The screen. facts: status, progress and open reconfigurations, as the routes return them."""
    parts: list[RenderableType] = [_head(facts["status"]), _latency(facts["progress"]["recent"])]
    if lags := facts["status"]["lag"]:
        parts += [_sources(lags), Text("")]
    parts.append(_operators(facts["status"]["operators"], facts["progress"]["last"]))
    if facts["open"]:
        parts += [Text(""), _reconfigurations(facts["open"])]
    return Group(*parts)


def sparkline(values: Sequence[float]) -> str:
    """A bar for each value; the largest value has the highest one."""
    most = max(values, default=0.0)
    if most <= 0:
        return BARS[0] * len(values)
    return "".join(BARS[min(len(BARS) - 1, int(v / most * len(BARS)))] for v in values)


def bar(done: int, total: int) -> str:
    """A bar that shows how much is done."""
    full = WIDTH if total <= 0 else WIDTH * done // total
    return FULL * full + EMPTY * (WIDTH - full)


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _head(status: dict[str, Any]) -> Text:
    at = (
        "no timestep is committed"
        if status["timestep"] is None
        else f"timestep {status['timestep']}"
    )
    return Text.assemble(
        (status["name"], "bold"),
        f"  {status['message'].partition(chr(10))[0]}  {at}  configuration {status['configuration']}",
    )


def _latency(recent: list[dict[str, Any]]) -> Text:
    if not recent:
        return Text("")
    times = [facts["duration_ms"] for facts in recent]
    rate = recent[-1]["processed_rows_per_second"]
    return Text(
        f"latency  {sparkline(times)}  last {times[-1]:,.0f} ms"
        f"  p50 {percentile(times, 0.5):,.0f} ms  p99 {percentile(times, 0.99):,.0f} ms"
        f"  {count(rate)} rows/s\n"
    )


def _sources(lags: dict[str, Any]) -> Table:
    numbers = ("unread rows", "unread bytes", "seconds waited")
    rows = table("source", *numbers, right=numbers)
    for name, lag in lags.items():
        rows.add_row(name, *lag_words(lag, size))
    return rows


def _operators(configured: dict[str, Any], last: dict[str, Any] | None) -> Table:
    flow = ("tasks", "bins", "rows in", "rows out", "state rows", "state")
    numbers = (*flow, "late", "dead", "lag of event time")
    rows = table("operator", *numbers, right=numbers)
    measured = {} if last is None else last["operators"]
    for name, how in configured.items():
        facts = measured.get(name, {})
        rows.add_row(
            name,
            count(how["tasks"]),
            count(how["bins"]),
            count(facts.get("rows_in")),
            count(facts.get("rows_out")),
            count(facts.get("state_rows")),
            size(facts.get("state_bytes")),
            count(how["rows_late"]),
            count(how["rows_dead"]),
            lag_of_time(how["event_time_lag_s"]),
        )
    return rows


def _reconfigurations(open_: list[dict[str, Any]]) -> Table:
    rows = table("id", "change", "phase", "bins", "moved")
    for one in open_:
        moved, left = one["bins"], one["bins_left"]
        planned = one["phase"] not in {"waiting", "ready"}
        rows.add_row(
            one["id"],
            one["change"],
            one["phase"],
            bar(moved, moved + left) if planned else "-",
            f"{count(moved)} of {count(moved + left)}" if planned else "-",
        )
    return rows
