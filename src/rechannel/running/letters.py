"""Dead letters of a running job, tried once more."""

from __future__ import annotations

from rechannel.assembly import Parts
from rechannel.engine.letters.choosing import Asked
from rechannel.engine.letters.replaying import Letters
from rechannel.replayed import ReplayedLetters


def replay_letters(parts: Parts, asked: Asked, *, plan: bool) -> ReplayedLetters:
    """Take dead letters of the running program. Raises RefusedError, UnknownOperatorError, NotReadyError."""
    letters = Letters(
        dataflow=parts.switch.current.program.dataflow,
        store=parts.opener.store,
        state=parts.journal.state,
    )
    return letters.plan(asked) if plan else letters.replay(asked, int(parts.hub.now_ms))
