"""The rules of the journal: what each kind of entry does to its state. Pure.

The rules, which `fold` enforces before an entry may be written:

- The first entry is `Opened`, and every `Opened` begins the next epoch. All other entries belong to
  the epoch of the latest one: a driver that lost its place cannot add to the story of another.
- Timesteps are intended in order without gaps, and committed in that order. Intended and not yet
  committed ones are *open*: after a crash they run again, with the same sources and configuration.
- Open timesteps can be withdrawn, from one on: then their numbers are intended anew, with other sources. What was
  decided of the configuration and of reconfigurations in them holds from the first of these numbers on.
- A configuration holds from its timestep on; it can change only for timesteps not yet intended.
- What a commit stages for sinks stays until it is reported as published.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from rechannel.engine.journal.entries import (
    Body,
    Closed,
    Committed,
    ConfigurationChanged,
    Controlling,
    Entry,
    Intent,
    Note,
    Notes,
    Opened,
    Published,
    Reconfiguring,
    SavepointDropped,
    SavepointMade,
    SourceReset,
    StateEdited,
    Withdrawn,
)
from rechannel.engine.journal.folds import acts, changes, notes, opened, timesteps
from rechannel.engine.journal.state import JournalState

FOLDS: Mapping[type[Body], Callable[[JournalState, Any], JournalState]] = {
    Opened: opened.opened,
    Closed: opened.closed,
    Intent: timesteps.intended,
    Committed: timesteps.committed,
    Published: timesteps.published,
    Withdrawn: timesteps.withdrawn,
    ConfigurationChanged: changes.changed,
    Reconfiguring: changes.reconfiguring,
    Controlling: changes.controlling,
    Note: notes.noted,
    Notes: notes.all_noted,
    SavepointMade: acts.saved,
    SavepointDropped: acts.dropped,
    SourceReset: acts.reset,
    StateEdited: acts.edited,
}
"""By kind of entry."""


def fold(state: JournalState, entry: Entry) -> JournalState:
    """Return the state after one more entry. Raises ValueError if the rules do not allow it."""
    opening = isinstance(entry.body, Opened)
    if entry.number != state.next_number:
        msg = f"entry {entry.number} does not follow entry {state.number}"
        raise ValueError(msg)
    if entry.epoch != state.epoch + opening or not entry.epoch:
        msg = f"entry {entry.number} is of epoch {entry.epoch}, the journal in {state.epoch}"
        raise ValueError(msg)
    if state.closed and not opening:
        msg = f"entry {entry.number} comes after the driver of epoch {state.epoch} had closed"
        raise ValueError(msg)
    after = FOLDS[type(entry.body)](state, entry.body)
    return replace(after, number=entry.number, epoch=entry.epoch)
