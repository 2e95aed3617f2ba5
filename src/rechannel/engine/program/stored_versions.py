"""Which eras of state there are: every segment says which one it is of."""

from __future__ import annotations

from collections.abc import Callable

from rechannel.engine.journal.state import JournalState
from rechannel.state.manifest import Manifest
from rechannel.state.segments.segment import open_segment
from rechannel.state.store import Store


def eras_of(store: Store, state: Callable[[], JournalState], operator: str) -> frozenset[str]:
    """Names of the eras that the segments of an operator are of, in all versions that are kept."""
    runs = {
        run.segment
        for version in state().versions.values()
        for run in version.manifests.get(operator, Manifest()).state
    }
    return frozenset(open_segment(store, key).meta.schema for key in runs)
