"""What arrives at a source over time, as values. Pure.

A load answers one question: how many records arrive between successive times. The answer is the integral of its rate,
exact up to rounding, so it does not depend on how time is cut: the records of an hour are the sum of those of its
seconds. Rates are in records per second, times in seconds since the beginning.

Bursts and noise multiply another load by factors that are constant for a while. A factor is a hash of the seed and of
the number of its piece, so any moment can be asked for, in any order, and two runs with one seed see the same load.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from rechannel.errors import RefusedError
from rechannel.scaling.model.rates import Floats

DAY_S = 86_400.0
Counts: TypeAlias = npt.NDArray[np.int64]


class Load(Protocol):
    """Says what arrives."""

    def arrivals(self, edges: Floats) -> Floats:
        """Return the records that arrive between each of n + 1 ascending times, in seconds, and its successor."""
        ...


def mean_rate(load: Load, start_s: float, end_s: float) -> float:
    """Return the exact mean of a load over an interval, in records per second. Raises RefusedError for an empty one."""
    if not start_s < end_s:
        raise RefusedError(f"the interval from {start_s} s to {end_s} s is empty: give end > start")
    return float(load.arrivals(np.array([start_s, end_s]))[0]) / (end_s - start_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """The same rate for ever."""

    rate: float

    def __post_init__(self) -> None:
        """Check the rate. Raises RefusedError."""
        _check_rate(self.rate)

    def arrivals(self, edges: Floats) -> Floats:
        """Return the records between the edges."""
        return self.rate * np.diff(edges)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """A rate that changes at given times."""

    rates: tuple[tuple[float, float], ...]
    """(second, rate from then on), ascending. Before the first, nothing arrives."""

    def __post_init__(self) -> None:
        """Check times and rates. Raises RefusedError."""
        times = [at for at, _ in self.rates]
        if not times or times != sorted(set(times)):
            raise RefusedError(f"steps at {times} s: give at least one, in ascending order")
        for _, rate in self.rates:
            _check_rate(rate)

    def arrivals(self, edges: Floats) -> Floats:
        """Return the records between the edges."""
        times, rates = np.array(self.rates, dtype=float).T
        before = np.concatenate([[0.0], np.cumsum(np.diff(times) * rates[:-1])])
        piece = np.searchsorted(times, edges, side="right") - 1
        known = np.maximum(piece, 0)
        total = before[known] + (edges - times[known]) * rates[known]
        return np.diff(np.where(piece < 0, 0.0, total))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """A sine: mean + swing cos(2 pi (t - peak) / period). The default is a day with its peak at 15 h."""

    mean: float
    swing: float
    """By how much the rate goes above and below the mean; at most the mean."""
    period_s: float = DAY_S
    peak_s: float = 15 * 3600.0

    def __post_init__(self) -> None:
        """Check that no rate is negative. Raises RefusedError."""
        _check_rate(self.mean)
        if not 0 <= self.swing <= self.mean or not 0 < self.period_s < math.inf:
            raise RefusedError(f"{self}: give 0 <= swing <= mean, and a period above 0")

    def arrivals(self, edges: Floats) -> Floats:
        """Return the records between the edges."""
        turn = 2 * math.pi / self.period_s
        wave = np.sin(turn * (edges - self.peak_s)) * (self.swing / turn)
        return np.maximum(np.diff(self.mean * edges + wave), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """A load times a random factor with mean 1 (log-normal), drawn anew for each piece of time."""

    load: Load
    seed: int
    deviation: float = 0.1
    """Standard deviation of the logarithm of the factor."""
    piece_s: float = 10.0

    def __post_init__(self) -> None:
        """Check the settings. Raises RefusedError."""
        if not 0 <= self.deviation <= 3 or self.piece_s <= 0:
            raise RefusedError(f"{self}: give 0 <= deviation <= 3 and pieces above 0 s")

    def arrivals(self, edges: Floats) -> Floats:
        """Return the records between the edges."""
        cut = _multiples(edges, self.piece_s)
        return _in_pieces(self.load, edges, cut, self._factors)

    def _factors(self, middles: Floats) -> Floats:
        piece = np.floor(middles / self.piece_s).astype(np.int64)
        size = np.sqrt(-2 * np.log(1 - uniform(self.seed, 2 * piece)))
        normal = size * np.cos(2 * math.pi * uniform(self.seed, 2 * piece + 1))
        factors: Floats = np.exp(self.deviation * normal - self.deviation**2 / 2)
        return factors


@dataclass(frozen=True, slots=True, kw_only=True)
class Bursts:
    """A load that is multiplied for a while, once in every period, at a random moment of it."""

    load: Load
    seed: int
    factor: float = 3.0
    every_s: float = 3600.0
    lasts_s: float = 300.0
    """At most the period: a burst ends within the period in which it begins."""

    def __post_init__(self) -> None:
        """Check the settings. Raises RefusedError."""
        if self.factor < 0 or not 0 < self.lasts_s <= self.every_s:
            raise RefusedError(f"{self}: give a factor of at least 0, and 0 < lasts_s <= every_s")

    def arrivals(self, edges: Floats) -> Floats:
        """Return the records between the edges."""
        starts = self._starts(_numbers(edges, self.every_s))
        return _in_pieces(
            self.load, edges, np.concatenate([starts, starts + self.lasts_s]), self._factors
        )

    def _starts(self, periods: Counts) -> Floats:
        return self.every_s * periods + uniform(self.seed, periods) * (self.every_s - self.lasts_s)

    def _factors(self, middles: Floats) -> Floats:
        starts = self._starts(np.floor(middles / self.every_s).astype(np.int64))
        within = (middles >= starts) & (middles < starts + self.lasts_s)
        return np.where(within, self.factor, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A load of which nothing arrives for a while. What would have arrived is lost."""

    load: Load
    from_s: float
    until_s: float = math.inf

    def __post_init__(self) -> None:
        """Check the times. Raises RefusedError."""
        if not self.from_s < self.until_s:
            raise RefusedError(f"{self}: give until_s > from_s")

    def arrivals(self, edges: Floats) -> Floats:
        """Return the records between the edges."""
        return _in_pieces(self.load, edges, np.array([self.from_s, self.until_s]), self._factors)

    def _factors(self, middles: Floats) -> Floats:
        return np.where((middles >= self.from_s) & (middles < self.until_s), 0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """Several loads at once."""

    loads: tuple[Load, ...]

    def arrivals(self, edges: Floats) -> Floats:
        """Return the records between the edges."""
        return sum((load.arrivals(edges) for load in self.loads), np.zeros(len(edges) - 1))


def uniform(seed: int, numbers: Counts) -> Floats:
    """Return numbers in [0, 1) that depend on nothing but the seed and each number (the finaliser of SplitMix64)."""
    start = np.uint64((seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % 2**64)
    z = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + start
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed = (z ^ (z >> np.uint64(31))) >> np.uint64(11)
    fractions: Floats = mixed.astype(np.float64) * 2.0**-53
    return fractions


class _Factors(Protocol):
    def __call__(self, middles: Floats) -> Floats: ...


def _in_pieces(load: Load, edges: Floats, cuts: Floats, factors: _Factors) -> Floats:
    """Return the arrivals of a load times factors that change at the cuts only."""
    within = cuts[(cuts > edges[0]) & (cuts < edges[-1])]
    fine = np.unique(np.concatenate([edges, within]))
    pieces = load.arrivals(fine) * factors((fine[:-1] + fine[1:]) / 2)
    total = np.concatenate([[0.0], np.cumsum(pieces)])
    return np.diff(total[np.searchsorted(fine, edges)])


def _numbers(edges: Floats, every_s: float) -> Counts:
    first, last = math.floor(edges[0] / every_s), math.floor(edges[-1] / every_s)
    return np.arange(first, last + 1)


def _multiples(edges: Floats, every_s: float) -> Floats:
    return _numbers(edges, every_s).astype(np.float64) * every_s


def _check_rate(rate: float) -> None:
    if not 0 <= rate < math.inf:
        raise RefusedError(f"a rate of {rate} records per second: give a finite one of at least 0")
