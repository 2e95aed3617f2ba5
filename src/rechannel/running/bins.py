"""The bins of every operator with state: owners, bytes, rows, and where open reconfigurations move them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rechannel.kernels.tasks.binned import bytes_per_bin, unpack_bins
from rechannel.model.configuration import Configuration
from rechannel.model.routing import Routing
from rechannel.monitoring import OperatorBins
from rechannel.reconfigure.record import Record
from rechannel.reconfigure.steps import BinMove
from rechannel.state.manifest import Manifest
from rechannel.telemetry.recent_tasks import TimestepTasks

Floats: TypeAlias = npt.NDArray[np.float64]

MOST_BINS = 16_384
"""Bins of an operator that are listed; of one with more, only their number is."""


def bins_of(
    configuration: Configuration,
    before: Sequence[tuple[int, Configuration]],
    manifests: Mapping[str, Manifest],
    tasks: Sequence[TimestepTasks],
    records: Iterable[Record],
) -> dict[str, OperatorBins]:
    """Return the bins by operator.

    configuration: of the next timestep. before: those of earlier ones with the timestep since which each holds,
    ascending. tasks: of the latest timesteps, oldest first. records: of open reconfigurations.
    """
    moves = [move for record in records for step in record.left for move in step.moves]
    return {
        name: _bins(
            operator.routing,
            manifests.get(name, Manifest()),
            list(_rows(name, operator.routing.bins, tasks, _since(name, operator.routing, before))),
            [move for move in moves if move.operator == name],
        )
        for name, operator in configuration.operators.items()
        if operator.routing is not None
    }


def _bins(
    routing: Routing,
    manifest: Manifest,
    rows: Sequence[Floats],
    moves: Sequence[BinMove],
) -> OperatorBins:
    if routing.bins > MOST_BINS:
        return OperatorBins(
            tasks=routing.tasks, bins=routing.bins, owners=(), bytes=(), rows=None, timesteps=0
        )
    numbers = {start: number for number, start in enumerate(routing.starts)}
    mean = np.mean(rows, axis=0).round(1).tolist() if rows else None
    return OperatorBins(
        tasks=routing.tasks,
        bins=routing.bins,
        owners=routing.owners,
        bytes=tuple(map(round, bytes_per_bin(manifest.runs, routing))),
        rows=None if mean is None else tuple(mean),
        timesteps=len(rows),
        moving=tuple((numbers[m.lo], m.target) for m in moves if m.lo in numbers and not m.stays),
        spread=tuple(routing.bin_of(one.lo) for one in routing.spreads),
    )


def _since(name: str, routing: Routing, before: Sequence[tuple[int, Configuration]]) -> float:
    """Return the timestep from which on the operator is known to have had these bins; infinity if there is none."""
    found = float("inf")
    for since, configuration in reversed(before):
        operator = configuration.operators.get(name)
        if (
            operator is None
            or operator.routing is None
            or operator.routing.starts != routing.starts
        ):
            break
        found = since
    return found


def _rows(name: str, bins: int, tasks: Sequence[TimestepTasks], since: float) -> Iterator[Floats]:
    """Yield the rows per bin of each timestep from one on, shape (bins,).

    A timestep that was withdrawn and planned anew may have run with other bins than the journal has for it now, or some
    of its tasks may: it is left out.
    """
    for one in tasks:
        if one.timestep >= since and name in one.binned:
            found = [unpack_bins(text) for text in one.operators[name].bins]
            if all(len(rows) == bins for rows in found):
                yield np.sum(found, axis=0, dtype=np.float64)
