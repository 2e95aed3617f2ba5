"""A result as JSON and as tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from benchmarks.harness import Metric, Result

COLUMNS = 8
"""Variants that fit beside each other."""


def as_json(
    result: Result, versions: Mapping[str, Any], hardware: Mapping[str, Any]
) -> dict[str, Any]:
    """The JSON object of a result. A variant that failed has one metric: ``failed`` is 1."""
    failed = [
        Metric(name="failed", value=1.0, unit="runs", variant=failure.variant)
        for failure in result.failures
    ]
    return {
        "versions": dict(versions),
        "hardware": dict(hardware),
        "parameters": dict(result.parameters),
        "metrics": [
            {"name": m.name, "value": m.value, "unit": m.unit, "variant": m.variant}
            for m in (*result.metrics, *failed)
        ],
        "ratios": dict(result.ratios),
    }


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write `document` in UTF-8, indented, ending with a newline."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def tables(result: Result, goals: Mapping[str, float]) -> RenderableType:
    """Metrics by variant, ratios beside their goals, and the failures with their error output."""
    parts: list[RenderableType] = []
    if result.metrics:
        parts.append(metric_table(result))
    if result.ratios:
        parts.append(ratio_table(result, goals))
    for failure in result.failures:
        parts.append(f"[bold red]{failure.variant} failed[/]: {escape(failure.reason)}")
        parts.append(Text(failure.stderr_tail))
    return Group(*parts)


def metric_table(result: Result) -> Table:
    """One row per metric, one column per variant; of many variants, one row per metric and variant."""
    variants = list(dict.fromkeys(metric.variant for metric in result.metrics))
    if len(variants) > COLUMNS:
        return long_table(result, variants)
    table = Table("metric", "unit", title=result.picture.title)
    for variant in variants:
        table.add_column(variant, justify="right", overflow="fold")
    rows: dict[tuple[str, str], dict[str, float]] = {}
    for metric in result.metrics:
        rows.setdefault((metric.name, metric.unit), {})[metric.variant] = metric.value
    for (name, unit), values in rows.items():
        cells = [readable(values[v]) if v in values else "" for v in variants]
        table.add_row(name, unit, *cells)
    return table


def long_table(result: Result, variants: Sequence[str]) -> Table:
    """One row per variant and metric."""
    table = Table("variant", "metric", title=result.picture.title)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("unit")
    for variant in variants:
        mine = [metric for metric in result.metrics if metric.variant == variant]
        for number, metric in enumerate(mine):
            called = "" if number else variant
            table.add_row(called, metric.name, readable(metric.value), metric.unit)
    return table


def ratio_table(result: Result, goals: Mapping[str, float]) -> Table:
    """One row per ratio; larger is better for Rechannel."""
    table = Table("ratio", title="Larger is better for Rechannel")
    for column in ("value", "goal", "met"):
        table.add_column(column, justify="right")
    for name, value in result.ratios.items():
        goal = goals.get(name)
        met = "" if goal is None else ("yes" if value >= goal else "[red]no[/]")
        table.add_row(name, f"{value:.2f}", "" if goal is None else f"{goal:g}", met)
    return table


def readable(value: float) -> str:
    """Three significant digits below a thousand, whole numbers with separators above."""
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def write_text(path: Path, rendered: RenderableType) -> None:
    """Write the tables as plain text."""
    with path.open("w", encoding="utf-8") as file:
        Console(file=file, width=140).print(rendered)
