"""Advice for a stream of ours, as text."""

from __future__ import annotations

from rechannel.cli.screen import count, moment, say, share, show, show_prose, show_table, table
from rechannel.scaling.decided import Decided
from rechannel.scaling.needs.values import Amount, StreamAdvice, StreamNeeds
from rechannel.scaling.needs.words import short

SHOWN = 10
"""Decisions of a controller that are shown, the latest."""


def show_stream(made: StreamAdvice) -> None:
    """Print what the stream needs, by which measurements, and what its controllers have decided."""
    show(_heading(made))
    if made.needs is not None:
        show_prose(f"{made.needs.why[:1].upper()}{made.needs.why[1:]}.")
        for each in made.operators.values():
            show_prose(each.sentence)
    for note in made.notes:
        say(f"note: {note}")
    if made.needs is not None:
        _show_operators(made)
        _show_stream(made.needs)
    for controller in made.controllers:
        show("")
        how = ", which only advises" if controller.dry_run else ""
        none = "" if controller.decisions else " none yet"
        show(f"Decisions of {controller.name}{how}:{none}")
        for decided in controller.decisions[-SHOWN:]:
            _show_decided(decided)


def _heading(made: StreamAdvice) -> str:
    needs = made.needs
    if needs is None:
        return f"{made.title}: nothing was measured"
    first, last = needs.windows[0].first, needs.windows[-1].last
    number = len(needs.windows)
    backlog = f", {count(needs.backlog)} rows wait" if needs.backlog else ""
    return (
        f"{made.title}: {number} window{'s' if number > 1 else ''}, timesteps {first} to {last};"
        f" {count(needs.rate)} rows per second arrive{backlog}"
    )


def _show_operators(made: StreamAdvice) -> None:
    numbers = ("has", "needs", "least", "most", "rows/s", "of one task", "ms/task", "ms/1,000 rows")
    rows = table("operator", *numbers, right=numbers)
    for name, each in made.operators.items():
        fixed, row = ("-", "-")
        if each.cost is not None:
            fixed, row = short(each.cost.fixed_ms), short(1e3 * each.cost.row_ms)
        amounts = (each.instances, each.advised, each.low, each.high, each.target, each.rate)
        rows.add_row(name, *map(count, amounts), fixed, row)
    show("")
    show_table(rows)


def _show_stream(needs: StreamNeeds) -> None:
    numbers = ("has", "needs", "least", "most")
    rows = table("stream", *numbers, right=numbers)
    for name, amount in (("cores", needs.cores), ("executors", needs.executors)):
        if amount is not None:
            rows.add_row(name, *map(count, _numbers(amount)))
    show("")
    show_table(rows)
    took = f"Timesteps take {needs.timestep_ms:,.0f} ms"
    if needs.predicted_ms is not None:
        took += f", and {needs.predicted_ms:,.0f} ms with what is advised"
    if needs.used is not None:
        took += f": {share(needs.used)} of what may be used"
    show(f"{took}.")


def _numbers(amount: Amount) -> tuple[int, ...]:
    return amount.present, amount.advised, amount.low, amount.high


def _show_decided(made: Decided) -> None:
    why = made.why and f": {made.why}"
    show_prose(f"{moment(made.at_ms)}  {made.outcome}{why}", indent=2)
    for remedy in (f"{name}: {change}" for name, change in made.remedies.items()):
        show_prose(remedy, indent=4)
    if made.became:
        show_prose(made.became, indent=4)
