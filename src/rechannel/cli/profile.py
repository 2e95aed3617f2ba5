"""`rechannel profile`: why an application is slow, what changed between two runs, and whether it keeps its limits."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rechannel.cli.own_session import own_session
from rechannel.cli.profiles.values import duration, threshold, window
from rechannel.cli.screen import in_line, say
from rechannel.errors import RefusedError, TraceError
from rechannel.profiling.model.causes import CAUSES
from rechannel.profiling.model.limits import SLOWER, Limit, broken, read_limit

if TYPE_CHECKING:
    from rechannel.profiling.model.analysis import Analysis

BROKEN = 1
"""Exit code if a limit is broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be profiled and shown."""

    window: Literal["batch"] | timedelta | None
    query: str | None
    since: timedelta
    until: timedelta | None
    threshold: timedelta
    strict: bool
    spark: str | None
    """Master of a session on which windows are analysed."""
    limits: Sequence[Limit]
    top: int
    page: str | None
    png: str | None
    as_json: bool


def profile(  # noqa: PLR0913, PLR0917 - a command line
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG [LOG]",
            help="A Spark event log, the state directory of a job, or a trace (.parquet, .csv, .jsonl, .msgpack);"
            " two of them to see what changed. After --run and --, a command.",
        ),
    ],
    run: Annotated[
        bool,
        typer.Option(
            "--run", help="Run a command (spark-submit, python, ...) and profile what it did."
        ),
    ] = False,
    window_length: Annotated[
        str | None,
        typer.Option(
            "--window",
            metavar="TIME",
            help="Length of a window; 'batch' for one window per batch of a stream. By default, windows are batches,"
            " timesteps, or jobs and the time between them.",
        ),
    ] = None,
    query: Annotated[
        str | None, typer.Option(metavar="NAME", help="The stream whose batches are windows.")
    ] = None,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Start of the part to analyse, from the beginning.")
    ] = "0",
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="End of the part to analyse, from the beginning."),
    ] = None,
    gaps: Annotated[
        str,
        typer.Option(
            "--threshold",
            metavar="TIME",
            help="Gaps shorter than this belong to the activities next to them.",
        ),
    ] = "0",
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LIMIT",
            help="Exit with 1 if mending a cause would gain more: 'skew>20%', 'any>30s'; with two logs, 'slower>10%'."
            " May be repeated.",
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Rows per table.")] = 10,
    page: Annotated[
        str | None,
        typer.Option("--html", metavar="FILE", help="Also write an HTML page with a timeline."),
    ] = None,
    png: Annotated[
        str | None, typer.Option(metavar="DIRECTORY", help="Also write the pictures as PNG files.")
    ] = None,
    spark: Annotated[
        str | None,
        typer.Option(metavar="MASTER", help="Analyse windows in parallel on Spark, 'local[*]'."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail on bad lines instead of skipping them.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find what is on the critical path of an application, and suggest what to try.

    Works for any Spark application: batch, streaming, SQL; for Rechannel jobs in more detail.
    Shares of the critical path (CP) are computed with SnailTrail's algorithm. A TIME is '5 seconds',
    '200 ms', or a number of seconds.
    """
    two = not run and len(logs) == 2
    asked = Asked(
        window=None if window_length is None else window(window_length),
        query=query,
        since=duration(since, "--since"),
        until=None if until is None else duration(until, "--until"),
        threshold=threshold(gaps),
        strict=strict,
        spark=spark,
        limits=[_limit(text, two=two) for text in fail_on or ()],
        top=top,
        page=page,
        png=png,
        as_json=as_json,
    )
    code = _run(logs, asked) if run else _compare(logs, asked) if two else _explain(logs, asked)
    if code:
        raise typer.Exit(code)


def _explain(logs: Sequence[str], asked: Asked) -> int:
    if len(logs) > 2:
        msg = (
            f"at most two logs can be compared, not {len(logs)}; a command comes after --run and --"
        )
        raise RefusedError(msg)
    (made,) = _profiled(logs, asked)
    return _report(made, asked)


def _compare(logs: Sequence[str], asked: Asked) -> int:
    if asked.page or asked.png:
        msg = "--html and --png show one run: profile the logs one by one"
        raise RefusedError(msg)
    from rechannel.profiling.api import compare_profiles

    one, two = _profiled(logs, asked)
    made = compare_profiles(one, two)
    from rechannel.cli.profiles.shown import show_comparison

    show_comparison(made, (logs[0], logs[1]), asked.top, as_json=asked.as_json)
    return _verdict(broken(asked.limits, two.findings, made))


def _run(command: Sequence[str], asked: Asked) -> int:
    """Run a command. Its standard output stays its own, unless JSON is asked for: the report goes to standard error."""
    from rechannel.cli.profiles.running import planned, run_and_report

    def report(log: Path) -> int:
        (made,) = _profiled([str(log)], asked)
        with nullcontext() if asked.as_json else redirect_stdout(sys.stderr):
            return _report(made, asked)

    return run_and_report(partial(planned, command), report)


def _report(made: Analysis, asked: Asked) -> int:
    from rechannel.cli.profiles.shown import show_analysis, write_files

    write_files(made, asked.page, asked.png)
    show_analysis(made, asked.top, as_json=asked.as_json)
    return _verdict(broken(asked.limits, made.findings))


def _verdict(lines: Sequence[str]) -> int:
    for line in lines:
        say(f"failed: {in_line(line)}")
    return BROKEN if lines else 0


def _limit(text: str, *, two: bool) -> Limit:
    limit = read_limit(text, CAUSES)
    if limit.cause == SLOWER and not two:
        msg = f"{text!r} compares two runs: give two logs"
        raise RefusedError(msg)
    return limit


def _profiled(logs: Sequence[str], asked: Asked) -> list[Analysis]:
    """Profile one log after the other. Raises TraceError for one in which nothing happens."""
    from rechannel.profiling.api import profile as profiled

    found = []
    with own_session(asked.spark, "rechannel profile") as held:
        for log in logs:
            made = profiled(
                log,
                window=asked.window,
                threshold=asked.threshold,
                query=asked.query,
                since=asked.since,
                until=asked.until,
                strict=asked.strict,
                spark=held,
            )
            if not len(made.profile.windows):
                msg = f"{log} contains no activity: nothing begins and ends in it"
                raise TraceError(msg)
            found.append(made)
    return found
