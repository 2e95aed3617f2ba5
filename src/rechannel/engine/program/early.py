"""Sinks that show what they are given before the commit: a user's function straight after a source. Pure.

Such a sink may have been called with the oldest open timestep. Where that is withdrawn, the function gets rows of the
same number again, of another digest, and only what it feeds can replace the first ones. So the journal knows their
names: a driver that comes later, and `rechannel repair`, withdraw such a timestep only if the user asks for it.
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
    """Names of those that show a timestep before it is committed."""
    return sorted(
        str(one.sink.name)
        for one in sinks
        if one.direct and getattr(one.sink.outlet, "shows_at_once", False)
    )


def early_note(state: JournalState, sinks: Iterable[SinkPlan]) -> Note | None:
    """What the journal is told of a program that begins; None where it says so already.

    Sinks of the program before stay on it for as long as a timestep is open that they may have been called with.
    """
    before = told(state.notes)
    names = sorted({*early_sinks(sinks), *(before if state.open_intents else ())})
    return None if names == before else Note(kind=NOTE, body=names or None)


def told(notes: Mapping[str, Json]) -> list[str]:
    """Names of the sinks that may have shown the oldest open timestep."""
    return [str(name) for name in notes.get(NOTE) or ()]


def warning(state: JournalState) -> str:
    """What to see to before the oldest open timestep is withdrawn; "" where there is nothing."""
    if not state.open_intents or not (names := told(state.notes)):
        return ""
    which = f"sink {names[0]!r}" if len(names) == 1 else f"sinks {', '.join(map(repr, names))}"
    return (
        f"the function of {which} may have been called with timestep {state.open_intents[0].timestep} already, and gets"
        " that number again with other rows and another digest: what it feeds has to replace what it holds of it"
    )
