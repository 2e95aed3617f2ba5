"""`rechannel scale`: how many instances each operator of a recorded dataflow needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rechannel.cli.screen import count, say, show, show_json, show_prose, show_table, table

if TYPE_CHECKING:
    from rechannel.scaling.files.advice import ScalingAdvice


def scale(  # noqa: PLR0917 - a command line
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A directory with DS2's files (*topology*, *rates*), or the file of rates.",
        ),
    ],
    system: Annotated[
        Literal["flink", "timely", "heron"],
        typer.Option(help="The engine that wrote the files; of timely the answer is one number."),
    ] = "flink",
    factor: Annotated[
        float, typer.Option(min=0, help="Instances in addition: 0.2 adds 20 %.")
    ] = 0.0,
    threshold: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="If no operator lacks instances, and sources emit so many times less than they should, the numbers"
            " grow by that ratio.",
        ),
    ] = None,
    topology: Annotated[
        str | None, typer.Option(metavar="FILE", help="The topology, if PATH does not have it.")
    ] = None,
    source_rates: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Lines of a source and the records per second that each of its instances should emit.",
        ),
    ] = None,
    operator_rates: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Lines of an operator and the records per second that an instance can process at most.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say how many instances each operator needs, by DS2's model, and from which measurements that follows."""
    from rechannel.scaling.files.advice import as_record
    from rechannel.scaling.files.api import scaling_advice

    made = scaling_advice(
        path,
        system=system,
        factor=factor,
        threshold=threshold,
        topology=topology,
        source_rates=source_rates,
        operator_rates=operator_rates,
    )
    if as_json:
        show_json(as_record(made))
    else:
        _show(made)


def _show(made: ScalingAdvice) -> None:
    show(_heading(made))
    for each in made.operators.values():
        show_prose(each.sentence)
    if made.workers is not None:
        show_prose(
            f"All operators together: {made.workers} workers instead of {made.present_workers}."
        )
    for note in made.notes:
        say(f"note: {note}")
    numbers = ("has", "needs", "least", "most", "exact", "records/s", "of one instance")
    rows = table("operator", *numbers, right=numbers)
    for each in made.operators.values():
        rows.add_row(
            each.name,
            *map(count, (each.instances, each.advised, each.low, each.high)),
            f"{each.exact:.2f}",
            count(each.target),
            count(each.rate),
        )
    show("")
    show_table(rows)


def _heading(made: ScalingAdvice) -> str:
    number = len(made.epochs)
    adjusted = sum(each.adjusted for each in made.epochs)
    text = f"{made.title}: {number} epoch" + (
        "s, the median of each operator" if number > 1 else ""
    )
    if adjusted:
        text += f"; {adjusted} adjusted, since sources lag although no operator lacks instances"
    return text
