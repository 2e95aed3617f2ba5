"""Find the schema versions of stored state: every segment names its own."""

from __future__ import annotations

from collections.abc import Callable

from rechannel.engine.journal.state import JournalState
from rechannel.errors import MissingFileError
from rechannel.state.manifest import Manifest
from rechannel.state.segments.segment import open_segment
from rechannel.state.store import Store


def stored_schema_versions(
    store: Store, state: Callable[[], JournalState], operator: str
) -> frozenset[str]:
    """Return the schema versions of an operator's segments, over all versions of the state that are kept.

    A segment may be removed meanwhile, as no kept version names it any more; then those that are kept now are looked
    at. Raises MissingFileError if one is missing that is still named.
    """
    while True:
        runs = _segments(state(), operator)
        try:
            return frozenset(open_segment(store, key).meta.schema for key in runs)
        except MissingFileError:
            if runs <= _segments(state(), operator):
                raise


def _segments(state: JournalState, operator: str) -> set[str]:
    return {
        run.segment
        for version in state.versions.values()
        for run in version.manifests.get(operator, Manifest()).state
    }
