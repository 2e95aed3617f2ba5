"""What timesteps measure for changes: rows per bin and per hot key, bytes per bin, milliseconds per moved byte."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rechannel.engine.reconfigure.latencies import Latencies
from rechannel.kernels.tasks.binned import bytes_per_bin, unpack_bins
from rechannel.kernels.tasks.report import HotKey, Sent
from rechannel.kernels.tasks.unit_report import UnitReport
from rechannel.model.configuration import Configuration
from rechannel.model.routing import Routing
from rechannel.reconfigure.steps import Sizes
from rechannel.reconfigure.strategies import Strategy
from rechannel.state.manifest import Manifest

PerBin: TypeAlias = Mapping[str, Sequence[float]]
"""Figures by operator, shape (bins,)."""

SentRows: TypeAlias = Mapping[tuple[str, int], int]
"""Rows by (operator, input)."""

LOOKED_AT = 16
"""Timesteps over which loads are summed at most: enough to smooth out a single one."""

LEAST = 4
"""Timesteps that count however differently their rows are distributed: input may come in turns."""

MOVED = 0.15
"""Share of the rows that has to be in other bins than later, beyond chance, for a timestep not to count any more."""

FIRST_GUESS_MS_PER_BYTE = 1e-6
"""Cost of a moved byte before any was moved: 1 GB/s."""

GUESSED_BYTES = 4 << 20
"""Weight of the first guess, in bytes."""

FADING = 0.9
"""Weight of past moves at each new one: about the last ten count."""

LEAST_MS_PER_BYTE = 1e-9

QUIET = 64
"""Timesteps without a move, with which those with a move are compared."""


class Measured:
    """Measurements of one driver, used by its thread only."""

    def __init__(self, manifests: Callable[[], Mapping[str, Manifest]]) -> None:
        """manifests: of all operators, as of now."""
        self._manifests = manifests
        self._bins: deque[tuple[Configuration, list[tuple[str, tuple[str, ...]]]]] = deque(
            maxlen=LOOKED_AT
        )
        self._hot: deque[tuple[Configuration, list[tuple[str, tuple[HotKey, ...]]]]]
        self._hot = deque(maxlen=LOOKED_AT)
        self._sent: deque[tuple[int, list[Sent]]] = deque(maxlen=LOOKED_AT)
        self.latencies = Latencies()
        self._quiet: deque[float] = deque(maxlen=QUIET)
        self._moved_bytes = float(GUESSED_BYTES)
        self._moved_ms = GUESSED_BYTES * FIRST_GUESS_MS_PER_BYTE

    def committed(
        self,
        timestep: int,
        reports: Sequence[UnitReport],
        configuration: Configuration,
        took_ms: float,
        moved: float,
    ) -> None:
        """Record a committed timestep. took_ms: from decision to commit. moved: bytes that moved when it began."""
        sent = [each for report in reports for each in report.sent]
        self._sent.append((configuration.dataflow, sent))
        bins = [(report.operator, report.bins) for report in reports if report.bins]
        self._bins.append((configuration, bins))
        hot = [(report.operator, report.hot_keys) for report in reports if report.hot_keys]
        self._hot.append((configuration, hot))
        if moved <= 0:
            self._quiet.append(took_ms)
        elif self._quiet:
            # Timesteps differ by more than a move costs. So the cost may be negative here: if only slower timesteps
            # counted, their variation would be taken for the cost of moving.
            self._moved_bytes = FADING * self._moved_bytes + moved
            self._moved_ms = FADING * self._moved_ms + took_ms - fmean(self._quiet)
        self.latencies.add(timestep, took_ms)

    def loads(self, configuration: Configuration) -> dict[str, tuple[float, ...]]:
        """Rows per bin of every stateful operator over the last timesteps under its present bins.

        The latest four always count. Earlier ones count back to the last change of the distribution of rows over bins.
        """
        found, _ = self._summed(configuration)
        return {operator: tuple(rows.tolist()) for operator, rows in found.items()}

    def _summed(
        self, configuration: Configuration
    ) -> tuple[dict[str, npt.NDArray[np.float64]], dict[str, int]]:
        """Return rows per bin by operator, and of how many of the latest timesteps they are."""
        out: dict[str, npt.NDArray[np.float64]] = {}
        reach = dict[str, int]()
        over = set[str]()
        for back, (then, bins) in enumerate(reversed(self._bins), 1):
            for operator, rows in _rows_per_bin(then, configuration, bins).items():
                if operator in over:
                    continue
                if back > LEAST and operator in out and _moved(rows, out[operator]):
                    over.add(operator)
                    continue
                out[operator] = out.get(operator, 0.0) + rows
                reach[operator] = back
        return out, reach

    def hot(self, configuration: Configuration) -> dict[str, dict[int, float]]:
        """Rows of hot keys, by their hash, of every stateful operator over the timesteps of `loads`."""
        out: dict[str, dict[int, float]] = {}
        _, reach = self._summed(configuration)
        for back, (then, hot) in enumerate(reversed(self._hot), 1):
            for operator, keys in hot:
                if _same_bins(then, configuration, operator) is None:
                    continue
                if back > reach.get(operator, LOOKED_AT):
                    continue
                rows = out.setdefault(operator, {})
                for key in keys:
                    rows[key.hash] = rows.get(key.hash, 0.0) + key.rows
        return out

    def sent(self) -> SentRows:
        """Rows before combining over the last timesteps of the program that ran latest.

        The rows of a single timestep may be those of one input only.
        """
        out = Counter[tuple[str, int]]()
        for program, sent in self._sent:
            if program == self._sent[-1][0]:
                for each in sent:
                    out[each.operator, each.input] += each.offered
        return out

    def sizes(self, configuration: Configuration) -> Sizes:
        """Bytes of state per bin, from the sizes of runs in the manifests."""
        bins = {}
        for name, manifest in self._manifests().items():
            operator = configuration.operators.get(name)
            if operator is not None and operator.routing is not None:
                bins[name] = (
                    operator.routing.starts,
                    bytes_per_bin(manifest.runs, operator.routing),
                )
        return Sizes(bins=bins)

    def budget(self, strategy: Strategy) -> float | None:
        """Most bytes that a step may move: the strategy's bytes, or as many as its milliseconds allow; None = any."""
        bounds = [strategy.budget_bytes] if strategy.budget_bytes is not None else []
        if strategy.budget_ms is not None:
            bounds.append(max(1, int(strategy.budget_ms / self.ms_per_byte)))
        return min(bounds, default=None)

    @property
    def ms_per_byte(self) -> float:
        """Measured cost of a moved byte in the timestep that it moves in."""
        return max(self._moved_ms / self._moved_bytes, LEAST_MS_PER_BYTE)


def _rows_per_bin(
    then: Configuration, now: Configuration, bins: Sequence[tuple[str, tuple[str, ...]]]
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the rows per bin of one timestep, by operator; without those that have other bins now."""
    out: dict[str, npt.NDArray[np.float64]] = {}
    for operator, packed in bins:
        routing = _same_bins(then, now, operator)
        if routing is not None:
            rows = out.setdefault(operator, np.zeros(routing.bins))
            for each in packed:
                rows += unpack_bins(each)
    return out


def _moved(rows: npt.NDArray[np.float64], later: npt.NDArray[np.float64]) -> bool:
    """Whether rows were distributed otherwise than later ones, by more than chance.

    Two samples of n and m rows over b bins of one distribution differ, in half of the sum of the differences of their
    shares, by at most  sqrt(b (1 / n + 1 / m)) / 2  on average, by the inequality of Cauchy and Schwarz.
    """
    many, after = float(rows.sum()), float(later.sum())
    if not many or not after:
        return False
    differ = float(np.abs(rows / many - later / after).sum()) / 2
    return differ > MOVED + math.sqrt(len(rows) * (1 / many + 1 / after)) / 2


def _same_bins(then: Configuration, now: Configuration, operator: str) -> Routing | None:
    """The routing of an operator, if it has the same bins in both Configurations; None otherwise."""
    before, after = then.operators.get(operator), now.operators.get(operator)
    if before is None or after is None or before.routing is None or after.routing is None:
        return None
    same = before.routing is after.routing or before.routing.starts == after.routing.starts
    return after.routing if same else None
