"""States of `process`: `states={"spent": rc.states.value_state("n BIGINT, total DOUBLE"), ...}`."""

from __future__ import annotations

from rechannel.dataflow.streams.states import list_state, map_state, value_state

__all__ = ["list_state", "map_state", "value_state"]
