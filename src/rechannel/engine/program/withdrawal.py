"""Decide when timesteps that were intended but never committed are withdrawn, so that they are planned anew. Pure.

An intent tells the driver after a crash to run exactly the same timestep again. If the timestep cannot run at all (too
large for its tasks, a file that can no longer be read), the intent blocks the job for ever. Withdrawing it is safe,
because state and output of a timestep count only from its commit on. What was staged for it is swept, and a driver that
still runs it finds that the next journal entry exists.

One kind of sink may have published it anyway: a user's function directly after a source, which is called before the
commit (`early`). It is called again with the same number and another digest. If the program has such a sink, only the
user can withdraw.

A driver that a bound on bad rows has ended has run the timestep well: it is not counted among those that failed, since
the timestep is to end each of them until the data or the program is corrected.

Changes of the job that were to begin with a withdrawn timestep stay decided: they begin with the first timestep that is
planned anew. State does not have to move back, since the task that owns a bin finds it.
"""

from __future__ import annotations

from rechannel.engine.journal.entries import Note, Withdrawn
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program import early

BOUNDED = "bounded"
"""Kind of the note that tells how many drivers a bound on bad rows has ended at a timestep: its `digest`, `drivers`."""


def withdrawal(
    state: JournalState,
    *,
    replan: bool,
    after: int | None,
    begins: bool = False,
    reset: str = "",
) -> Withdrawn | None:
    """Return what a driver that has just opened the journal withdraws; None means nothing.

    replan: the user asked for it. after: how many drivers may end without committing the oldest open timestep, None for
    any number; it does not apply if a sink may have published the timestep. begins: another
    program takes over from the one that planned the timesteps. reset: a source that begins again elsewhere, if any.
    """
    if not state.open_intents:
        return None
    oldest = state.open_intents[0].timestep
    if replan:
        return Withdrawn(from_timestep=oldest, reason="asked for at the start of a driver")
    if begins:
        reason = "another program cannot run what this one has planned"
        return Withdrawn(from_timestep=oldest, reason=reason)
    if reset:
        return Withdrawn(from_timestep=oldest, reason=f"source {reset!r} is reset")
    if _has_failed(state, after) and not early.warning(state):
        failed = _failed(state)
        reason = f"{failed} {'driver' if failed == 1 else 'drivers'} ended before it was committed"
        return Withdrawn(from_timestep=oldest, reason=reason)
    return None


def _has_failed(state: JournalState, after: int | None) -> bool:
    """Return whether that many earlier drivers have ended without committing the oldest open timestep."""
    return bool(state.open_intents) and after is not None and _failed(state) >= after


def _failed(state: JournalState) -> int:
    """Return how many earlier drivers have failed at the oldest open timestep."""
    return state.attempts - 1 - _ended(state)


def _ended(state: JournalState) -> int:
    """Return how many drivers a bound on bad rows has ended at the oldest open timestep, as it is planned now."""
    note = state.notes.get(BOUNDED) or {}
    same = note.get("digest") == state.digest(state.open_intents[0].timestep)
    return int(note["drivers"]) if note and same else 0


def bounded(state: JournalState) -> Note:
    """Return the note of a driver that a bound on bad rows ends at the oldest open timestep."""
    digest = state.digest(state.open_intents[0].timestep)
    return Note(kind=BOUNDED, body={"digest": digest, "drivers": _ended(state) + 1})


def held_back(state: JournalState, after: int | None) -> str:
    """Return why `replan_after` withdraws nothing although it applies, and what to do; empty in all other cases."""
    if not _has_failed(state, after) or not (why := early.warning(state)):
        return ""
    return (
        f"timestep {state.open_intents[0].timestep} is not withdrawn automatically (replan_after={after}): {why};"
        " if it does, start with replan=True"
    )


def described(state: JournalState, withdrawn: Withdrawn) -> str:
    """Return a sentence for the log. state: before the withdrawal."""
    numbers = [i.timestep for i in state.open_intents if i.timestep >= withdrawn.from_timestep]
    which = (
        f"timestep {numbers[0]}"
        if len(numbers) == 1
        else f"timesteps {numbers[0]} to {numbers[-1]}"
    )
    shown = early.warning(state)
    return (
        f"{which} {'is' if len(numbers) == 1 else 'are'} withdrawn and planned anew"
        f" ({withdrawn.reason}); sources continue from the last committed offsets"
        f"{shown and '; '}{shown}"
    )
