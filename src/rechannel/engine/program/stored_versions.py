"""Find the schema versions of stored state: every segment names its own."""

from __future__ import annotations

from collections.abc import Callable

from rechannel.engine.journal.state import JournalState
from rechannel.state.manifest import Manifest
from rechannel.state.segments.segment import open_segment
from rechannel.state.store import Store


def stored_schema_versions(
    store: Store, state: Callable[[], JournalState], operator: str
) -> frozenset[str]:
    """Return the schema versions of an operator's segments, over all versions of the state that are kept."""
    runs = {
        run.segment
        for version in state().versions.values()
        for run in version.manifests.get(operator, Manifest()).state
    }
    return frozenset(open_segment(store, key).meta.schema for key in runs)
