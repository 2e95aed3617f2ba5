"""What was done to a state directory beside its timesteps and reconfigurations, for the history. Pure.

The note `acts` holds the latest ones, oldest first. The fold makes it: what does something also notes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rechannel.engine.journal.entries import ConfigurationChanged, StateEdited
from rechannel.model.codec import Json

NOTE = "acts"
"""Kind of the note in the journal: a list of `kind`, `time_ms`, `timestep` (the latest committed one), `what`, and
`cause`."""

KEPT = 256
"""Acts that are kept, the latest ones."""

PROGRAM = "program"
"""Kind of the note that has the versions of the program."""


EDITED = "edit"
"""Kind of the act that an edit of state is."""


def edit_in(body: StateEdited) -> str:
    """Return what an edit of state does, in words."""
    changed, added, removed = body.rows
    what = edit_of(body.operator, body.function)
    return f"{what}: {changed} rows changed, {added} added, {removed} removed, by {body.by}"


def edit_of(operator: str, function: str) -> str:
    """Return the words with which an edit of an operator's state by a function begins."""
    return f"state of {operator!r} with {function}"


def acts_of(notes: Mapping[str, Json]) -> Sequence[Mapping[str, Json]]:
    """Return the acts that are kept, oldest first."""
    found: Sequence[Mapping[str, Json]] = notes.get(NOTE) or ()
    return found


def with_act(
    notes: Mapping[str, Json],
    kind: str,
    *,
    time_ms: int,
    timestep: int | None,
    what: str,
    cause: str = "",
) -> dict[str, Json]:
    """Return notes with one more act."""
    act = {"kind": kind, "time_ms": time_ms, "timestep": timestep, "what": what, "cause": cause}
    return {**notes, NOTE: [*acts_of(notes), act][-KEPT:]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Another program that took over at a start."""

    kind: str
    """Of the act: `upgrade`, or `return`."""
    what: str


def turn_in(body: ConfigurationChanged) -> Turn | None:
    """Return what took over at a start, if the entry says so; else None."""
    known: Mapping[str, Any] = body.notes.get(PROGRAM) or {}
    version = body.configuration.dataflow
    record = known.get(str(version))
    if record is None or not record.get("at_start"):
        return None
    names = f", {dict(body.renamed)} have new names" if body.renamed else ""
    what = f"version {version} of the program took over at a start{names}"
    if "back_to" not in record:
        return Turn(kind="upgrade", what=what)
    return Turn(kind="return", what=f"{what}: the program of version {record['back_to']} again")
