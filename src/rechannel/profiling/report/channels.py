"""Channels between rows of the timeline: the most critical ones one by one, all others summed by what their ends are
part of, so that sums of hosts and executors are exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rechannel.profiling.model.summaries import Profile
from rechannel.profiling.report.rows import Row

LEAST = 1e-9
"""The smallest share of the critical path that is shown."""


def channels(found: Profile, rows: Sequence[Row], most: int) -> list[list[Any]]:
    """Return at most about `most` channels: row that sends, row that receives, share of the critical path, messages.

    Rows are places in `rows`. Channels of workers without a row are left out.
    """
    place = {row.worker: i for i, row in enumerate(rows) if row.worker >= 0}
    number = {name: i for i, name in enumerate(found.names.workers)}
    sums: dict[tuple[int, int], list[float]] = {}
    known = 0
    for worker, peer, critical, count in (
        found.by_channel().select("worker", "peer", "critical", "edges").iter_rows()
    ):
        source, target = place.get(number[worker]), place.get(number[peer])
        if source is None or target is None or critical < LEAST:
            continue
        known += 1
        if known > most:
            source, target = _top(rows, source), _top(rows, target)
        held = sums.setdefault((source, target), [0.0, 0.0])
        held[0] += critical
        held[1] += count
    return [[a, b, round(critical, 9), int(count)] for (a, b), (critical, count) in sums.items()]


def _top(rows: Sequence[Row], row: int) -> int:
    while rows[row].parent >= 0:
        row = rows[row].parent
    return row
