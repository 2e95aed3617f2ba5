"""Which files versions, savepoints and unpublished output name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rechannel.engine.journal.kept import Version
from rechannel.engine.journal.state import JournalState
from rechannel.state.keys import timestep_of


def needed(state: JournalState) -> set[str]:
    """Return the segments and sink buffer files that a kept version, a savepoint or unpublished output needs."""
    kept = set[str]().union(*(version.files() for version in versions_of(state)))
    staged = (what for sinks in state.unpublished.values() for what in sinks.values())
    sink_buffers = (what.get("outbox") or {} for what in staged if isinstance(what, Mapping))
    return kept.union(key for nodes in sink_buffers for keys in nodes.values() for key in keys)


def unreferenced(state: JournalState, keys: Iterable[str]) -> list[str]:
    """Return the keys of segments and sink buffers that no kept version names, and no open timestep can name.

    Files of timesteps after the latest commit may belong to running attempts: they stay.
    """
    if state.last_committed is None:
        return []
    named = set[str]().union(*(version.files() for version in versions_of(state)))
    return [
        key
        for key in keys
        if key not in named
        and (timestep := timestep_of(key)) is not None
        and timestep <= state.last_committed
    ]


def versions_of(state: JournalState) -> Iterator[Version]:
    """Yield all versions that are kept, also by savepoints."""
    yield from state.versions.values()
    yield from (savepoint.version for savepoint in state.savepoints.values())
