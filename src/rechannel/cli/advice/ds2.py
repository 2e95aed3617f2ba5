"""Advice from files of DS2, as text."""

from __future__ import annotations

from rechannel.cli.screen import count, say, show, show_prose, show_table, table
from rechannel.scaling.files.advice import ScalingAdvice


def show_ds2(made: ScalingAdvice) -> None:
    """Print what every operator needs: sentences, and then a table."""
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
