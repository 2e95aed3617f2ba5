"""Dead letters that were taken for a replay, and are lost if the source that has still to read them goes.

A call may append to the log of such a source at any time. So the log is ended before the source goes: after that a call
is refused, and what came before it is seen here. If the source stays after all, it reads past the end, and goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from rechannel.engine.journal.state import JournalState
from rechannel.engine.program.versions import current_record
from rechannel.errors import OtherDataflowError
from rechannel.model.codec import Json
from rechannel.sources.replayed.connector import ReplayedConnector
from rechannel.sources.replayed.log import ReplayLog
from rechannel.state.store import Store

_LIVE = "wait for its next timestep, which reads them"
_AT_START = (
    "start the program that has it once more, which reads them, or give them up with without=[{!r}]"
)


def check_unread(
    store: Store,
    state: JournalState,
    sources: Collection[str],
    *,
    without: Collection[str] = (),
    renamed: Mapping[str, str] | None = None,
    live: bool = False,
) -> None:
    """Raise OtherDataflowError if a source goes that has replayed dead letters to read, or is to have another name.

    sources: names of those that the next program has. without: sources that are given up. renamed: new names, by old
    ones. live: whether the job runs.
    """
    for log, first in _logs_that_go(store, state, sources):
        name = log.name
        if name in (renamed or ()):
            msg = (
                f"source {name!r} reads dead letters that are replayed, and its log stays with its name: take it out of"
                f" renamed, and give it up with without=[{name!r}]"
            )
            raise OtherDataflowError(msg)
        rows = 0 if name in without else sum(log.read(n).num_rows for n in log.numbers(first))
        if rows:
            msg = (
                f"source {name!r} is gone, and {rows:,} dead letters that were taken for a replay, and not read yet,"
                f" would be lost: {_LIVE if live else _AT_START.format(name)}"
            )
            raise OtherDataflowError(msg)


def end_logs(
    store: Store,
    state: JournalState,
    sources: Collection[str],
    *,
    without: Collection[str] = (),
    live: bool = False,
) -> None:
    """End the logs of sources that go, and raise as `check_unread` if a call was faster.

    Dead letters that are given up are not taken any more. Nothing of it does harm if the sources stay.
    """
    for log, first in _logs_that_go(store, state, sources):
        log.end(first)
    check_unread(store, state, sources, without=without, live=live)
    for log, first in _logs_that_go(store, state, sources):
        for number in log.numbers(max(first, _planned(state, log.name))):
            log.empty(number)


def _logs_that_go(
    store: Store, state: JournalState, sources: Collection[str]
) -> Iterator[tuple[ReplayLog, int]]:
    """Yield logs that no source of the next program reads, and how many of their files were read."""
    known: Mapping[str, Mapping[str, Json]] = current_record(state).get("sources") or {}
    for name in sorted(known.keys() - set(sources)):
        offset = state.offsets.get(name)
        if known[name]["kind"] == ReplayedConnector.__name__ and offset:
            yield ReplayLog(store, name), offset["files"]


def _planned(state: JournalState, name: str) -> int:
    """Return how many files timesteps read that are planned and not committed."""
    planned = (each.sources[name].end for each in state.open_intents if name in each.sources)
    return max((end["files"] for end in planned), default=0)
