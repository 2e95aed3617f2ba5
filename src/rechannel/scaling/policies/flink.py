"""The autoscaler of the Flink Kubernetes operator: DS2 with averages, bands and delays. Pure.

Windows are collected for `metrics.window`, from `stabilization.interval` after the last change on; until they are
complete, nothing is decided. Then (`flink_formulas.py` has the formulas):

1. The rate of a source is what it read plus the growth of its lag: what arrived. Rates travel downstream by the
   measured ratio of each edge, and lag over catch-up time with them.
2. Operators whose new parallelism differs are changed together, if at least one has a true rate outside of its band.
   With a backlog of more than `lag-threshold`, the band is wide open above and ends at full utilisation below.
3. An operator shrinks only after its scale-down was wanted for `scale-down.interval`, to the largest number of it.
4. An operator whose last scale-up gained less than a tenth of what was expected grows no more, if that is switched on.

What it has and this has not: sources are not scaled, and the rate that is observed of a source that catches up is
therefore not needed; memory is not considered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rechannel.scaling.model.optimal import targets_of
from rechannel.scaling.policies.flink_formulas import (
    capacity,
    coefficient,
    new_parallelism,
    scale_factor,
)
from rechannel.scaling.policies.flink_settings import FlinkSettings
from rechannel.scaling.policies.policy import Advice, Memory, Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What is kept of one window."""

    start_s: float
    end_s: float
    records: Mapping[str, float]
    """Records received, by operator."""
    sent: Mapping[tuple[str, str], float]
    """Records by edge (producer, consumer)."""
    busy: Mapping[str, float]
    """Share of the window for which the busiest instance was busy."""
    arrived: Mapping[str, float]
    """Records that arrived, by source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of an operator, as it was expected."""

    at_s: float
    before: int
    after: int
    rate: float
    """True rate before."""
    expected: float
    """True rate that was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What the autoscaler remembers."""

    since_s: float
    """When the job started to run as it does."""
    parallelism: Mapping[str, int]
    samples: tuple[Sample, ...] = ()
    down: Mapping[str, tuple[tuple[float, int, bool], ...]] = field(default_factory=dict)
    """By operator that may shrink: (time, number, whether out of its band) since that was first wanted."""
    history: Mapping[str, tuple[Change, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What one operator would have."""

    number: int
    outside: bool
    """Whether its true rate is out of its band."""
    rate: float
    expected: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Flink:
    """The rates of a quarter of an hour say what every operator needs."""

    settings: FlinkSettings = field(default_factory=FlinkSettings)

    def decide(self, seen: Seen, memory: Memory) -> tuple[Advice | None, Memory]:
        """Return what operators out of their bands need, and what else differs with them."""
        settings, present = self.settings, seen.parallelism
        state: Collected = memory or Collected(since_s=-math.inf, parallelism=present)
        if state.parallelism != present:
            state = replace(state, since_s=seen.start_s, parallelism=present, samples=(), down={})
        if seen.start_s < state.since_s + settings.stabilisation_s:
            return None, state
        kept = [e for e in state.samples if e.end_s > seen.end_s - settings.window_s + 1e-6]
        state = replace(state, samples=(*kept, sampled(seen)))
        if seen.end_s - state.samples[0].start_s < settings.window_s - 1e-6:
            return None, state
        wishes = self.wishes(seen, state)
        state, wishes = self._delayed(seen.end_s, state, wishes)
        if not any(wish.outside for wish in wishes.values()):
            return None, state
        made = {n: self._changes(state, n, w, present[n], seen.end_s) for n, w in wishes.items()}
        numbers = {name: wish.number for name, wish in wishes.items()}
        reason = "; ".join(
            f"{name!r} can process {_records(wish.rate)} per second: {present[name]} -> {wish.number}"
            for name, wish in wishes.items()
        )
        evidence = {name: {"true_rate_per_s": wish.rate} for name, wish in wishes.items()}
        state = replace(state, history=dict(state.history) | made)
        return Advice(parallelism=numbers, reason=reason, evidence=evidence), state

    def wishes(self, seen: Seen, state: Collected) -> dict[str, Wish]:
        """Return the operators whose parallelism would change."""
        settings, samples = self.settings, state.samples
        span = sum(each.end_s - each.start_s for each in samples)
        arriving = {
            source: sum(each.arrived.get(source, 0.0) for each in samples) / span
            for source in seen.topology.sources
        }
        lags = {source: seen.arrivals[source].backlog for source in arriving}
        late = any(
            lags[source] > settings.lag_threshold_s * rate for source, rate in arriving.items()
        )
        catch_up = settings.catch_up_s
        due = {source: lag / catch_up if catch_up else 0.0 for source, lag in lags.items()}
        ratios = _ratios(seen, samples)
        rates = targets_of(seen.topology, ratios, arriving)
        extra = targets_of(seen.topology, ratios, due)
        found = {}
        for name, present in seen.parallelism.items():
            if not seen.topology.inputs[name]:
                continue
            rate = sum(each.records.get(name, 0.0) for each in samples) / span
            busy = sum(each.busy.get(name, 0.0) for each in samples) / len(samples)
            true = math.inf if not rate or not busy else rate / busy
            known = tuple((each.before, each.rate) for each in state.history.get(name, ()))
            scaled = true * (coefficient(settings, known) if settings.learn_coefficient else 1.0)
            needed = capacity(
                settings, rates[name], extra[name], settings.utilisation, restart=True
            )
            factor = scale_factor(settings, needed, scaled)
            number = new_parallelism(settings, present, factor)
            if number != present and not self._ineffective(state, name, number, present, true):
                outside = self._outside(rates[name], extra[name], true, late=late)
                found[name] = Wish(
                    number=number, outside=outside, rate=true, expected=true * factor
                )
        return found

    def _outside(self, rate: float, extra: float, true: float, *, late: bool) -> bool:
        settings = self.settings
        high = 1.0 if late else settings.utilisation + settings.boundary
        low = 0.0 if late else settings.utilisation - settings.boundary
        up = capacity(settings, rate, extra, high, restart=False)
        down = capacity(settings, rate, extra, low, restart=True)
        return true < up or true > down

    def _ineffective(
        self, state: Collected, name: str, number: int, present: int, true: float
    ) -> bool:
        """Whether the last change made the operator grow to what it has, and gained next to nothing."""
        last = state.history.get(name, ())[-1:]
        if not self.settings.block_ineffective or number < present or not last:
            return False
        change = last[0]
        if change.after != present or change.after <= change.before:
            return False
        return true - change.rate < self.settings.effective * (change.expected - change.rate)

    def _delayed(
        self, now: float, state: Collected, wishes: Mapping[str, Wish]
    ) -> tuple[Collected, dict[str, Wish]]:
        """Return the wishes that may be followed: those to shrink only after their delay."""
        interval = self.settings.down_interval_s
        allowed: dict[str, Wish] = {}
        down: dict[str, tuple[tuple[float, int, bool], ...]] = {}
        for name, wish in wishes.items():
            if wish.number > state.parallelism[name] or not interval:
                allowed[name] = wish
                continue
            wanted = (*state.down.get(name, ()), (now, wish.number, wish.outside))
            first = wanted[0]
            recent = tuple(each for each in wanted[1:] if each[0] > now - interval)
            down[name] = (first, *_peaks(recent))
            if first[0] <= now - interval:
                largest = max(recent, key=lambda each: each[1])
                allowed[name] = replace(wish, number=largest[1], outside=largest[2])
        return replace(state, down=down), allowed

    def _changes(
        self, state: Collected, name: str, wish: Wish, present: int, now: float
    ) -> tuple[Change, ...]:
        change = Change(
            at_s=now, before=present, after=wish.number, rate=wish.rate, expected=wish.expected
        )
        young = [e for e in state.history.get(name, ()) if e.at_s > now - self.settings.history_s]
        return (*young, change)[-self.settings.history :]


def _peaks(wanted: tuple[tuple[float, int, bool], ...]) -> tuple[tuple[float, int, bool], ...]:
    """Return those that no later one reaches: the largest of any later window is among them."""
    kept: list[tuple[float, int, bool]] = []
    for each in wanted:
        while kept and kept[-1][1] <= each[1]:
            kept.pop()
        kept.append(each)
    return tuple(kept)


def sampled(seen: Seen) -> Sample:
    """Return what is kept of a window."""
    sent = {
        (name, consumer): each.reports.records_out.get(
            consumer, each.reports.records_out.get("", 0.0)
        )
        for name, each in seen.activities.items()
        for consumer, inputs in seen.topology.inputs.items()
        if name in inputs
    }
    return Sample(
        start_s=seen.start_s,
        end_s=seen.end_s,
        records={n: each.reports.received for n, each in seen.activities.items()},
        sent=sent,
        busy={name: each.busy(seen.window_s) for name, each in seen.activities.items()},
        arrived={name: each.rate * seen.window_s for name, each in seen.arrivals.items()},
    )


def _ratios(seen: Seen, samples: tuple[Sample, ...]) -> dict[tuple[str, str], float]:
    """Return the records on each edge per record that its producer received; for a source, that it emitted."""
    ratios = {}
    for consumer, inputs in seen.topology.inputs.items():
        for producer in inputs:
            received = sum(each.records.get(producer, 0.0) for each in samples)
            sent = sum(each.sent.get((producer, consumer), 0.0) for each in samples)
            source = not seen.topology.inputs[producer]
            ratios[producer, consumer] = sent / received if received else float(source)
    return ratios


def _records(rate: float) -> str:
    return f"{rate:,.0f} records" if math.isfinite(rate) else "more records than were ever sent"
