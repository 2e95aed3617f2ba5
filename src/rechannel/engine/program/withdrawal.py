"""When timesteps that were intended and never committed are given up, so that their numbers are planned anew. Pure.

An intent is a promise to the driver that comes after a crash: run exactly this again. Where it cannot be run at all
(too large for its tasks, a file that cannot be read any more), the promise keeps the job from ever going on. To
withdraw it is safe because nothing of such a timestep counts: its state and output do only from its commit on. What was
staged for it is swept, and a driver that still runs it finds the next entry of the journal taken.

One kind of sink may have shown it all the same: a user's function straight after a source, which is called before the
commit (`early`). It gets rows of the same number again, of another digest. Where the program has one, nothing is
withdrawn unless the user asks for it.

What changes of the job rode on a withdrawn timestep stays decided: it holds from the first timestep that is planned
anew. State does not have to be moved back, since the task that owns a bin finds it.
"""

from __future__ import annotations

from rechannel.engine.journal.entries import Withdrawn
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program import early


def withdrawal(
    state: JournalState, *, replan: bool, after: int | None, back: bool = False
) -> Withdrawn | None:
    """What a driver that has just opened the journal withdraws; None = nothing.

    replan: the user asked for it. after: as many drivers may have ended with the oldest open timestep not committed;
    None = any number; where a sink may have shown it, any number too. back: the program of before a change takes over
    from the one that planned them.
    """
    if not state.open_intents:
        return None
    oldest = state.open_intents[0].timestep
    if replan:
        return Withdrawn(from_timestep=oldest, reason="asked for at the start of a driver")
    if back:
        reason = "the program of before a change cannot run what another one planned"
        return Withdrawn(from_timestep=oldest, reason=reason)
    if _has_failed(state, after) and not early.warning(state):
        failed = state.attempts - 1
        reason = f"{failed} {'driver' if failed == 1 else 'drivers'} ended before it was committed"
        return Withdrawn(from_timestep=oldest, reason=reason)
    return None


def _has_failed(state: JournalState, after: int | None) -> bool:
    """Whether so many drivers have ended with it, all but the one that asks."""
    return bool(state.open_intents) and after is not None and state.attempts - 1 >= after


def held_back(state: JournalState, after: int | None) -> str:
    """Why `replan_after` withdraws nothing although its time has come, and what to do; "" where that is not so."""
    if not _has_failed(state, after) or not (why := early.warning(state)):
        return ""
    return (
        f"timestep {state.open_intents[0].timestep} is not planned anew by itself (replan_after={after}): {why};"
        " where it does, start with replan=True"
    )


def described(state: JournalState, withdrawn: Withdrawn) -> str:
    """The sentence for the log. state: before it."""
    numbers = [i.timestep for i in state.open_intents if i.timestep >= withdrawn.from_timestep]
    which = (
        f"timestep {numbers[0]}"
        if len(numbers) == 1
        else f"timesteps {numbers[0]} to {numbers[-1]}"
    )
    shown = early.warning(state)
    return (
        f"{which} {'is' if len(numbers) == 1 else 'are'} planned anew, and what was planned is withdrawn"
        f" ({withdrawn.reason}); sources go on from the last committed offsets"
        f"{shown and '; '}{shown}"
    )
