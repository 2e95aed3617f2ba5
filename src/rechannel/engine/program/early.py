"""Sinks that publish before the commit: a user's function directly after a source. Pure.

Such a sink may have been called with the oldest open timestep. If that is withdrawn, the function is called again with
the same number, other rows and another digest, and only the system that it writes to can replace the first rows. So the
journal keeps the names of these sinks: a later driver, and `rechannel repair`, withdraw such a timestep only if the
user asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rechannel.engine.journal.entries import Note
from rechannel.model.codec import Json

if TYPE_CHECKING:
    from rechannel.engine.journal.state import JournalState
    from rechannel.engine.program.physical import SinkPlan

NOTE = "early"
"""Kind of the note in the journal: names of the sinks, in order."""


def early_sinks(sinks: Iterable[SinkPlan]) -> list[str]:
    """Return the names of sinks that publish a timestep before it is committed."""
    return sorted(
        str(one.sink.name) for one in sinks if one.direct and one.sink.outlet.shows_at_once
    )


def early_note(state: JournalState, sinks: Iterable[SinkPlan]) -> Note | None:
    """Return the note for a program that starts; None if the journal has it already.

    Sinks of the previous program stay in the note while a timestep is open that they may have been called with.
    """
    before = noted_sinks(state.notes)
    names = sorted({*early_sinks(sinks), *(before if state.open_intents else ())})
    return None if names == before else Note(kind=NOTE, body=names or None)


def noted_sinks(notes: Mapping[str, Json]) -> list[str]:
    """Return the names of the sinks that may have published the oldest open timestep."""
    return [str(name) for name in notes.get(NOTE) or ()]


def warning(state: JournalState) -> str:
    """Return what to consider before the oldest open timestep is withdrawn; empty if there is nothing."""
    if not state.open_intents or not (names := noted_sinks(state.notes)):
        return ""
    which = f"sink {names[0]!r}" if len(names) == 1 else f"sinks {', '.join(map(repr, names))}"
    return (
        f"the function of {which} may have been called with timestep {state.open_intents[0].timestep} and will be"
        " called again with this number, other rows and another digest: the system it writes to must replace the old"
        " rows"
    )
