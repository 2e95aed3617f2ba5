"""The command line: choose, run, report."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.environment import hardware, versions
from benchmarks.harness import Benchmark, Result, UnknownNameError, Workbench
from benchmarks.picture import draw
from benchmarks.progress import ConsoleProgress
from benchmarks.registry import BENCHMARKS
from benchmarks.report import as_json, tables, write_json, write_text

RESULTS = Path(__file__).resolve().parent / "results"
BUSY = 0.25
"""Load per CPU from which on figures are not to be trusted."""


def main(argv: Sequence[str]) -> int:
    """Run the benchmark that `argv` names. 0 if every variant was measured, 1 if one failed."""
    options, rest = parser().parse_known_args(argv)
    out, err = Console(), Console(stderr=True)
    if options.name is None:
        out.print(overview())
        return 0
    benchmark = BENCHMARKS[options.name]
    machine = hardware()
    warn_if_busy(float(machine["load_before"]), int(machine["cpus_usable"]), err)
    try:
        overrides = dict([*options.set, *named(rest)])
        parameters = benchmark.parameters(quick=options.quick, overrides=overrides)
        result = measure(benchmark, parameters, frozenset(options.only), err)
    except UnknownNameError as error:
        parser().error(str(error))
    goals = {} if options.quick else benchmark.goals
    rendered = tables(result, goals)
    out.print(rendered)
    if options.json is not None:
        write_json(options.json, as_json(result, versions(), machine))
    options.out.mkdir(parents=True, exist_ok=True)
    write_text(options.out / f"{benchmark.name}.txt", rendered)
    draw(result.picture, options.out / f"{benchmark.name}.png")
    err.print(f"table and picture: {options.out / benchmark.name}.txt, .png")
    return 1 if result.failures else 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    options.add_argument("name", nargs="?", choices=list(BENCHMARKS), help="none: list them")
    options.add_argument("--quick", action="store_true", help="a small version, within a minute")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the result as JSON")
    options.add_argument("--out", type=Path, metavar="DIR", default=RESULTS, help="table, picture")
    options.add_argument(
        "--only", action="append", default=[], metavar="VARIANT", help="run this variant only"
    )
    options.add_argument(
        "--set",
        action="append",
        default=[],
        type=assignment,
        metavar="NAME=JSON",
        help="another value for a parameter, such as rounds=1 or cases.large.rows=1000",
    )
    return options


def assignment(text: str) -> tuple[str, Any]:
    """``NAME=JSON`` as a pair."""
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=JSON")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(
            f"{value!r} is not JSON ({error}); quote text twice: {name}='\"text\"'"
        ) from error


def named(arguments: Sequence[str]) -> list[tuple[str, Any]]:
    """Parameters by their own names: ``--keys 100000000`` is ``--set keys=100000000``."""
    words = [part for word in arguments for part in word.split("=", 1)]
    names, values = words[::2], words[1::2]
    wrong = next((name for name in names if not name.startswith("--")), None)
    if wrong is not None or len(names) != len(values):
        parser().error(f"say --NAME JSON, not {' '.join(arguments)}")
    try:
        return [
            assignment(f"{name.removeprefix('--')}={value}")
            for name, value in zip(names, values, strict=True)
        ]
    except argparse.ArgumentTypeError as error:
        parser().error(str(error))


def overview() -> Table:
    """Every benchmark with its purpose."""
    table = Table("benchmark", "what it measures")
    for benchmark in BENCHMARKS.values():
        table.add_row(benchmark.name, benchmark.purpose)
    return table


def warn_if_busy(load: float, cpus: int, err: Console) -> None:
    """Say so if other work disturbs the figures."""
    if cpus and load / cpus > BUSY:
        err.print(f"[yellow]this machine is busy (load {load:g} on {cpus} CPUs)[/]")


def measure(
    benchmark: Benchmark, parameters: dict[str, Any], only: frozenset[str], err: Console
) -> Result:
    """Run `benchmark` in a directory that is gone afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="rechannel-bench-") as scratch,
        ConsoleProgress(err) as progress,
    ):
        return benchmark.run(parameters, Workbench(scratch=scratch, progress=progress, only=only))
