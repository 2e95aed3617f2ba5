"""Places tasks on executors: near those that send them much, and away from executors that are slow or overloaded.

The decision is in `placing.py`. Over `samples` timesteps the controller asks all tasks for their load and for the bytes
that came on their channels. If another placement is expected to save at least the share `least` of a timestep, it is
requested, and judged by `window` timesteps before and after: a placement that saves less than half of that is taken
back, and the other explanation of what was measured is tried. If that does not help, `cool_down` timesteps pass.
"""

from __future__ import annotations

from rechannel.control.controller import Control, Controller, Outcome
from rechannel.control.library.attempt import Verdict, attempted, verdict
from rechannel.control.library.judging import figures_of
from rechannel.control.library.placing import Placing, decided
from rechannel.control.library.traffic import AskTraffic
from rechannel.control.operation import MOST_REPLY_BYTES, Operation, operation
from rechannel.control.triggers import every
from rechannel.errors import RefusedError
from rechannel.reconfigure.changes.resources import place
from rechannel.reconfigure.changes.together import one_change

EXPLANATIONS = (True, False)
"""Whether executors are slow (and not rows expensive), in the order in which this is assumed."""

MOST_WINDOW = 50
"""Timesteps: `control.progress` has 100 of them."""


class Placement(Controller):
    """Moves tasks to other executors, and back if that did not help."""

    trigger = every(timesteps=1)

    def __init__(
        self,
        *,
        operators: list[str] | None = None,
        samples: int = 5,
        window: int = 8,
        least: float = 0.1,
        cool_down: int = 100,
        megabytes_per_second: float = 125.0,
    ) -> None:
        """operators: names; None = all with state. megabytes_per_second: between executors. Raises RefusedError."""
        counts = min(samples, window, cool_down) >= 1
        if not (counts and window <= MOST_WINDOW and 0 < least < 1 and megabytes_per_second > 0):
            given = f"{samples=}, {window=}, {least=}, {cool_down=}, {megabytes_per_second=}"
            rule = f"window <= {MOST_WINDOW}, 0 < least < 1, a rate > 0"
            raise RefusedError(f"Placement({given}): give counts >= 1, {rule}")
        self.operators, self.samples, self.window = operators, samples, window
        self.least, self.cool_down = least, cool_down
        self.bytes_per_ms = megabytes_per_second * 1e3

    def on_init(self) -> Placing:
        """Nothing is known."""
        return Placing()

    def on_begin(self, control: Control[Placing]) -> Operation | None:
        """Judge the placement that was tried last; if there is none, ask the tasks."""
        attempt = control.state.attempt
        if attempt is not None:
            found = verdict(control, attempt, self.window)
            if found is not None:
                self._end(control, found)
            return None
        names = [n for n in control.places if self.operators is None or n in self.operators]
        changing = any(record.open for record in control.changes)
        if not names or changing or control.timestep < control.state.quiet:
            return None
        return operation(AskTraffic(), operators=names, reply_bytes=MOST_REPLY_BYTES)

    def on_complete(self, control: Control[Placing], outcome: Outcome) -> None:
        """Add a sample, and decide when there are enough."""
        if outcome.failed:
            return
        known = control.state = control.state.sampled(outcome.replies, control.places)
        before = figures_of(control.progress[-self.window :])
        if known.samples < self.samples or before is None or before.timesteps < self.window:
            return
        least, rate = self.least * before.latency_ms, self.bytes_per_ms
        for assumed in range(known.assumed, len(EXPLANATIONS)):
            slow, there = EXPLANATIONS[assumed], control.executors
            found = decided(known, there, slow_executors=slow, bytes_per_ms=rate, least_ms=least)
            if found is None:
                continue
            gain = f"{found.gain_ms:.3g} of {before.latency_ms:.3g} ms"
            moves = [
                place(n, task, at) for n, of in found.places.items() for task, at in enumerate(of)
            ]
            control.reconfigure(one_change(moves), reason=f"saves {gain} of a timestep")
            attempt = attempted(control, tuple(found.places), before)
            control.state = Placing(assumed=assumed, attempt=attempt)
            return
        quiet = control.timestep + self.cool_down if known.assumed else 0
        control.state = Placing(places=known.places, quiet=quiet)

    def _end(self, control: Control[Placing], found: Verdict) -> None:
        control.note(found.text)
        assumed = control.state.assumed
        control.state = Placing()
        if found.share is None:
            control.state = Placing(quiet=control.timestep + self.cool_down)
        elif found.share < self.least / 2:
            control.state = Placing(assumed=assumed + 1)
            if found.back is not None:
                control.reconfigure(found.back, reason=f"takes it back: {found.text}")
