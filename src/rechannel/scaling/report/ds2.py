"""Advice from files of DS2, as what a page shows. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rechannel.scaling.files.advice import ScalingAdvice, as_record
from rechannel.scaling.needs.words import between, short
from rechannel.scaling.report.parts import Bar, Card, Chart, Line, Page, Section, Table

MOST_ROWS = 200
MOST_LINES = 6
MOST_EPOCHS = 500


def ds2_page(made: ScalingAdvice) -> Page:
    """Return what the page of advice from DS2's files shows."""
    hint = "Instances: a ring is what there is, a dot what is advised, the bar what single epochs advise."
    sections = [
        Section(id="advice", title="What it needs", parts=tuple(_cards(made))),
        Section(id="operators", title="Operators", hint=hint, parts=(_operators(made),)),
    ]
    if len(made.epochs) > 1:
        sections.append(Section(id="time", title="Over epochs", parts=(_epochs(made),)))
    number = len(made.epochs)
    return Page(
        title=f"How much does {made.title} need?",
        about=f"{number} epoch{'s, the median of each operator' if number > 1 else ''}, by DS2's model.",
        sections=tuple(sections),
        notes=made.notes,
        record=as_record(made),
    )


def _cards(made: ScalingAdvice) -> Iterator[Card]:
    if made.workers is not None:
        text = f"All operators together: {made.workers} workers instead of {made.present_workers}."
        changed = made.workers != made.present_workers
        yield Card(title="Workers", text=text, weighty=changed)
    for of in list(made.operators.values())[:MOST_ROWS]:
        if of.advised != of.instances:
            yield Card(title=of.name, text=of.sentence, weighty=True)
    if all(of.advised == of.instances for of in made.operators.values()):
        yield Card(title="All is well", text="Every operator has what it needs.")


def _operators(made: ScalingAdvice) -> Table:
    shown = list(made.operators.values())[:MOST_ROWS]
    most = max((max(of.instances, of.high) for of in shown), default=1)
    rows = tuple(
        (
            of.name,
            short(of.target),
            "not known" if of.rate is None else short(of.rate),
            str(of.instances),
            str(of.advised),
            between(of.low, of.high),
            Bar(present=of.instances, advised=of.advised, low=of.low, high=of.high, most=most),
            f"{of.exact:.2f}",
        )
        for of in shown
    )
    heads = ("operator", "target, records/s", "true rate of an instance, records/s", "instances")
    more = ("advised", "epochs", "", "exact")
    return Table(heads=(*heads, *more), rows=rows, texts=frozenset({"operator", ""}))


def _epochs(made: ScalingAdvice) -> Chart:
    epochs = made.epochs[-MOST_EPOCHS:]
    first = len(made.epochs) - len(epochs)
    shown = sorted(made.operators, key=lambda key: -made.operators[key].advised)[:MOST_LINES]
    lines = tuple(
        Line(
            name=made.operators[key].name,
            points=tuple(
                (float(first + number), float(epoch.operators[key].advised))
                for number, epoch in enumerate(epochs, 1)
                if key in epoch.operators
            ),
        )
        for key in shown
    )
    return Chart(title="What each epoch advises", x="epoch", y="instances", lines=lines)
