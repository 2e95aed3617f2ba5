"""Dead letters that were taken for a replay, and are lost if the source that has still to read them goes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rechannel.errors import OtherDataflowError
from rechannel.model.codec import Json
from rechannel.sources.replayed.log import ReplayLog, replayed_sources
from rechannel.state.store import Store

_LIVE = "wait for its next timestep, which reads them"
_AT_START = (
    "start the program that has it once more, which reads them, or give them up with without=[{!r}]"
)


def check_unread(
    store: Store,
    offsets: Mapping[str, Json],
    sources: Collection[str],
    *,
    without: Collection[str] = (),
    live: bool = False,
) -> None:
    """Raise OtherDataflowError if a source is gone that has replayed dead letters to read.

    offsets: of the sources before. sources: names of those that stay. without: sources that are given up. live:
    whether the job runs.
    """
    gone = offsets.keys() - set(sources) - set(without)
    for name in sorted(gone and gone & replayed_sources(store)):
        log = ReplayLog(store, name)
        first, last = offsets[name]["files"] + 1, log.newest(offsets[name]["files"])
        rows = sum(log.read(number).num_rows for number in range(first, last + 1))
        if rows:
            msg = (
                f"source {name!r} is gone, and {rows:,} dead letters that were taken for a replay, and not read yet,"
                f" would be lost: {_LIVE if live else _AT_START.format(name)}"
            )
            raise OtherDataflowError(msg)
