"""Reset: a source begins again at another place. Pure.

State stays, and so does what was published, so rows that are read again count twice, and rows that are passed over do
not count: no reset keeps exactly-once. Only a user can say that this is meant. Timesteps that were planned with the old
offset are withdrawn first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from rechannel.dataflow.graph.nodes import Dataflow, Source
from rechannel.engine.journal.entries import SourceReset
from rechannel.engine.journal.state import JournalState
from rechannel.errors import RefusedError
from rechannel.model.codec import Json
from rechannel.operators.checks import suggest

To: TypeAlias = datetime | Mapping[str, Mapping[int, int]] | None
"""Where a source begins: at a time, at offsets as its connector takes them, or, with None, where a new stream would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """What is asked for."""

    source: str
    to: To = None
    accepted: bool = False
    """Whether repeated and missing rows are accepted."""
    cause: str = ""


def source_of(reset: Reset, dataflow: Dataflow, state: JournalState) -> Source:
    """Return the source that is reset, as it shall begin. Raises RefusedError if it cannot be reset."""
    sources = {str(n.name): n for n in dataflow.nodes if isinstance(n, Source)}
    node = sources.get(reset.source)
    if node is None:
        msg = f"the program has no source {reset.source!r}{suggest(reset.source, list(sources))}"
        raise RefusedError(msg)
    if node.connector.rereadable:
        msg = f"source {reset.source!r} is a table that is read as a whole, again and again: there is nothing to reset"
        raise RefusedError(msg)
    if not state.offsets.get(reset.source):
        msg = f"source {reset.source!r} has not been read yet: it begins where the program says"
        raise RefusedError(msg)
    return replace(node, connector=node.connector.beginning_at(reset.to))


def reset_to(reset: Reset, offset: Json, state: JournalState, time_ms: int) -> SourceReset | None:
    """Return the entry of a reset; None if the source is there already. Raises RefusedError if it is not accepted."""
    before = state.offsets[reset.source]
    if before == offset:
        return None
    if not reset.accepted:
        msg = (
            f"source {reset.source!r} would go from {shown(before)} to {shown(offset)}. State and published rows stay,"
            " so rows that are read again count twice, and rows that are passed over are missing: to accept that, give"
            " accept_repeats_and_gaps=True"
        )
        raise RefusedError(msg)
    return SourceReset(
        source=reset.source, before=before, after=offset, time_ms=time_ms, cause=reset.cause
    )


def shown(offset: Json) -> str:
    """Return an offset in a line."""
    text = json.dumps(offset, sort_keys=True)
    return text if len(text) <= 300 else f"{text[:300]}..."
