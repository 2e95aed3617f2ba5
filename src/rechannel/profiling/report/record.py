"""A profile as plain values, which the terminal, JSON and the page show."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import polars as pl

from rechannel.profiling.model.analysis import Analysis
from rechannel.profiling.model.finding import Finding
from rechannel.profiling.model.trace import NS
from rechannel.profiling.model.words import counted, seconds

SUMMARIES = {
    "activities": ("kind",),
    "workers": ("worker",),
    "operators": ("operator",),
    "channels": ("worker", "peer"),
}
"""Titles, and the columns that name their rows."""
MOSTLY = 0.9
"""Share of its length in which an application did something, if gains may as well be shares of all of it."""


def summaries(made: Analysis, top: int) -> dict[str, pl.DataFrame]:
    """Return the first `top` rows of every summary, by title; columns: names, critical, profile, edges, ns."""
    found = made.profile
    frames = {
        "activities": found.by_activity(),
        "workers": found.by_worker(),
        "operators": found.by_operator(),
        "channels": found.by_channel(),
    }
    figures = ("critical", "profile", "edges", "ns")
    return {
        title: frames[title].select(*SUMMARIES[title], *figures).head(top) for title in SUMMARIES
    }


def about(made: Analysis) -> str:
    """Return the size of what was analysed, in words."""
    windows = made.profile.windows
    if not len(windows):
        return f"no windows; {made.pieces.source.about}"
    begin, end = windows["start"].to_list(), windows["end"].to_list()
    length = (max(end) - min(begin)) / NS
    return (
        f"{seconds(length)} in {counted(len(windows), 'window')};"
        f" {made.pieces.source.about}{_basis(made, length)}"
    )


def _basis(made: Analysis, length: float) -> str:
    """Return what gains are shares of, if much of the length was idle. length: s."""
    whole = [each.seconds / each.gain for each in made.findings if each.gain and each.seconds]
    if max(whole, default=length) >= MOSTLY * length:
        return ""
    return f"; gains are shares of the {seconds(max(whole))} in which it was not idle"


def finding_record(found: Finding) -> dict[str, Any]:
    """Return a finding as JSON values; its place has what is known of it."""
    known = {name: value for name, value in asdict(found.place).items() if value not in {None, ""}}
    return {**asdict(found), "place": known}


def as_record(made: Analysis, top: int) -> dict[str, Any]:
    """Return everything as JSON values."""
    return {
        "title": made.title,
        "about": about(made),
        "notes": made.notes,
        "findings": [finding_record(each) for each in made.findings],
        "places": [
            {"operator": p.operator, "task": p.task, "executor": p.executor, "gain": p.gain}
            for p in made.places
        ],
        **{title: frame.to_dicts() for title, frame in summaries(made, top).items()},
        "windows": made.profile.windows.with_columns(
            pl.when(pl.col("paths").is_finite()).then("paths").alias("paths")
        ).to_dicts(),
    }
