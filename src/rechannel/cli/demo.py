"""`rechannel demo`: a year of real flights as a stream, and the proof that nothing was lost."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from rechannel.cli.options import JsonOption
from rechannel.cli.screen import count, err, share, show, show_json, show_table, table
from rechannel.errors import RefusedError

if TYPE_CHECKING:
    from rechannel.demo.story import Outcome

DIFFERENT = 1
"""Exit code if the stream and the batch differ."""

_PICTURES = Path("out/demo")


def demo(
    fast: Annotated[bool, typer.Option("--fast", help="Four weeks instead of the year.")] = False,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory for input, state and output, which are kept."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Replay a year of real flights, and prove the result.

    The 336,776 flights that left New York in 2013 run through two chained stateful operators and a
    `track` that follows every aircraft. Then the same dataflow runs as one batch, plain Spark SQL
    computes the same, and all are compared row for row: exit code 1 if they differ. Pictures go to
    out/demo, or to DIR.
    """
    from rechannel.demo.data import require_extra
    from rechannel.demo.quiet import quiet_session
    from rechannel.demo.story import FAST, Demo, Size

    require_extra()
    with _places(keep) as (work, out), Stage(err()) as stage:
        stage.step("starting Spark")
        with quiet_session(work / "spark.log") as spark:
            size = FAST if fast else Size()
            outcome = Demo(spark=spark, work=work, out=out, size=size, audience=stage).run()
    if as_json:
        show_json(_facts(outcome))
    else:
        _show(outcome)
    if not outcome.equal:
        raise typer.Exit(DIFFERENT)


class Stage:
    """Shows progress: a bar on a terminal, otherwise a line per step."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[facts]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Stage:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end_step()
        self._progress.stop()

    def step(self, text: str) -> None:
        """Print the beginning of a step."""
        self._end_step()
        if self._console.is_terminal:
            self._task = self._progress.add_task(text, total=None, facts="")
        else:
            self._console.print(text)

    def drawn(self, picture: str) -> None:
        """Show the dataflow."""
        self._console.print(f"\n{picture}\n", soft_wrap=True)

    def replayed(self, rows: int, total: int, until: datetime) -> None:
        """Show how many flights of the total are committed."""
        if self._task is not None:
            facts = f"{until:%d %b %Y}  {count(rows)} flights"
            self._progress.update(self._task, completed=rows, total=total, facts=facts)

    def _end_step(self) -> None:
        if self._task is not None:
            self._progress.update(self._task, completed=1, total=1)
            self._progress.stop_task(self._task)


@contextmanager
def _places(keep: Path | None) -> Iterator[tuple[Path, Path]]:
    """The working directory of the demo, and the directory of its pictures."""
    if keep is not None:
        if keep.is_dir() and any(keep.iterdir()):
            msg = f"{keep} is not empty: give --keep a new directory"
            raise RefusedError(msg)
        keep.mkdir(parents=True, exist_ok=True)
        yield keep, keep
        return
    _PICTURES.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="rechannel-demo-"))
    try:
        yield work, _PICTURES
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _show(outcome: Outcome) -> None:
    rate = outcome.flights / outcome.seconds
    show("")
    show(
        f"{count(outcome.flights)} flights in {outcome.timesteps} timesteps,"
        f" {outcome.seconds:,.1f} s: {count(rate)} flights/s"
    )
    show("")
    show_table(_carriers(outcome))
    show("")
    show(
        f"An aircraft that came late left late again on {share(outcome.findings.late_again)} of"
        f" its flights, one that came on time on {share(outcome.findings.late_anew)}."
    )
    show("")
    show_table(_proof(outcome))
    show("")
    if outcome.equal:
        show("Stream, batch and plain Spark SQL are equal, row for row.")
    else:
        show("Stream and batch DIFFER:")
        for one in outcome.comparisons:
            if not one.equal:
                show(f"  {one.name} against {one.other}: {one.difference}")
    show("")
    show(f"picture   {outcome.picture}")
    show(f"dataflow  {outcome.svg}")


def _carriers(outcome: Outcome) -> Any:
    numbers = ("flights", "cancelled", "late", "late again")
    rows = table("airline", *numbers, "worst day", right=numbers)
    for carrier in outcome.findings.carriers:
        rows.add_row(
            carrier.name,
            count(carrier.flights),
            share(carrier.cancelled),
            share(carrier.late),
            share(carrier.late_again),
            f"{carrier.worst_day:%d %b}: {count(carrier.worst_minutes / 60)} hours of delay",
        )
    return rows


def _proof(outcome: Outcome) -> Any:
    others = list(dict.fromkeys(one.other for one in outcome.comparisons))
    rows = table("result of the stream", "rows", *others, right=("rows",))
    for name in dict.fromkeys(one.name for one in outcome.comparisons):
        mine = [one for one in outcome.comparisons if one.name == name]
        verdicts = {one.other: "equal" if one.equal else "DIFFERENT" for one in mine}
        rows.add_row(name, count(mine[0].rows), *(verdicts[other] for other in others))
    return rows


def _facts(outcome: Outcome) -> dict[str, Any]:
    from dataclasses import asdict

    facts = asdict(outcome)
    facts["equal"] = outcome.equal
    facts["picture"], facts["svg"] = str(outcome.picture), str(outcome.svg)
    return facts
