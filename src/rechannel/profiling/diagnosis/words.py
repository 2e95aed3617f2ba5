"""How findings name durations and places: jobs, executions, streams."""

from __future__ import annotations

import re

from rechannel.profiling.model.words import seconds
from rechannel.profiling.spark.application import Application, Execution, Job

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LEAST = 15
"""Characters of a description that are left, if what is in parentheses is left out."""
_LONGEST = 60
"""Characters of a description in a sentence."""


def duration(ms: float) -> str:
    """Return a duration in words, from ms."""
    return seconds(ms / 1_000)


def job_name(job: Job) -> str:
    """Return a job with what it is called: job 3 (collect at etl.py:10), job 4 (batch 1)."""
    if job.batch is not None:
        return f"job {job.number} (batch {job.batch})"
    if job.broadcast:
        return f"job {job.number} (broadcast exchange)"
    return _with(f"job {job.number}", job.site or job.description)


def execution_name(execution: Execution) -> str:
    """Return an execution with its description: SQL execution 7 (daily totals)."""
    return _with(f"SQL execution {execution.number}", execution.description)


def stream_name(query: str) -> str:
    """Return a stream with its name, or with the beginning of its id."""
    return f"the stream {query[:8] if _ID.fullmatch(query) else repr(query)}"


def job_of(app: Application, number: int | None) -> str:
    """Return the name of a job; "" without one."""
    job = app.jobs.get(-1 if number is None else number)
    return "" if job is None else job_name(job)


def execution_of(app: Application, number: int | None) -> str:
    """Return the name of an execution; "" without one."""
    execution = app.executions.get(-1 if number is None else number)
    return "" if execution is None else execution_name(execution)


def short(text: str) -> str:
    """Return a text as part of a sentence: in one line, and cut if it is long."""
    line = " ".join(text.split())
    if len(line) <= _LONGEST:
        return line
    cut = line[: _LONGEST - 3]
    # Not in the middle of parentheses, if enough is left.
    before, _, inside = cut.rpartition(" (")
    return f"{before if ')' not in inside and len(before) >= _LEAST else cut}..."


def _with(what: str, called: str) -> str:
    plain = called.partition("<br")[0].rstrip().removesuffix(":")
    return f"{what} ({short(plain)})" if plain.split() else what
