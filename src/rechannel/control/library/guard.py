"""Takes back changes that made the stream worse, of people and of other controllers.

A change is on trial from its first step on. Its figures are those of `window` timesteps before that step, and of as
many after its last one, `settle` timesteps later. Changes that overlap are one trial, judged and taken back together,
as many as `Trial.takes`. What the guard itself has taken back is never on trial, and no window reaches across it.

    on trial --no worse--> over
             --worse-----> judged --way back accepted, given up, or crossed by another change--> over
"""

from __future__ import annotations

from dataclasses import replace

from rechannel.control.controller import Control, Controller
from rechannel.control.library.judging import between, figures_of, worse
from rechannel.control.library.trial import Guarding, Trial, begun
from rechannel.control.triggers import every
from rechannel.errors import RefusedError
from rechannel.reconfigure.record import Record

MOST_WINDOW = 50
"""Timesteps: `control.progress` has 100 of them."""
MOST_ATTEMPTS = 5
"""To take a trial back, `window` timesteps from one to the next."""


class Guard(Controller):
    """Judges every change by the timesteps before and after it."""

    trigger = every(timesteps=1)

    def __init__(self, *, window: int = 10, settle: int = 2, tolerance: float = 0.25) -> None:
        """Take the rules. window, settle: timesteps. tolerance: how much worse is accepted, as a share."""
        if not (1 <= window <= MOST_WINDOW and 0 <= settle <= MOST_WINDOW and 0 < tolerance < 1):
            most = f"window of 1 to {MOST_WINDOW}, settle of 0 to {MOST_WINDOW}, 0 < tolerance < 1"
            raise RefusedError(f"Guard({window=}, {settle=}, {tolerance=}): give {most}")
        self.window, self.settle, self.tolerance = window, settle, tolerance

    def on_init(self) -> Guarding:
        """Nothing is on trial."""
        return Guarding()

    def on_begin(self, control: Control[Guarding]) -> None:
        """Put new changes on trial, judge the trial once its window is full, and take it back if it has to."""
        own = [r.last_timestep or 0 for r in control.changes if control.requested(r)]
        known = control.timestep if control.state.over < 0 else control.state.over
        control.state = replace(control.state, over=max([known, *own]))
        for record in control.changes:
            if record.taken and not control.requested(record):
                self._put_on_trial(control, record)
        if (trial := control.state.trial) is None:
            return
        if not trial.verdict and trial.first <= control.state.over:
            self._close(control, trial, "not judged, it overlaps with a change of the guard")
        elif trial.verdict or self._judged(control, trial, control.timestep + 1, self.window):
            self._take_back(control)

    def _put_on_trial(self, control: Control[Guarding], record: Record) -> None:
        trial, first = control.state.trial, record.taken[0].timestep
        if first <= control.state.over or (trial and (trial.verdict or record.id in trial.ids)):
            return
        if trial is not None and not trial.takes(first, 4 * (self.window + self.settle)):
            if not self._judged(control, trial, first, (self.window + 1) // 2):
                self._close(control, trial, "not judged, changes follow it too soon")
            trial = control.state.trial
            if trial is not None or first <= control.state.over:
                return
        trial = trial or begun(control, first, self.window)
        control.state = replace(control.state, trial=trial.joined(record))

    def _judged(self, control: Control[Guarding], trial: Trial, until: int, least: int) -> bool:
        """Judge a trial by the timesteps before another one. Returns whether there are enough."""
        last = trial.last(control.changes)
        after = between(control.progress, last + self.settle - 1, until)[: self.window]
        figures = figures_of(after)
        if len(after) < least or any(r.open for r in control.changes if r.id in trial.ids):
            return False
        if trial.before is None or figures is None:
            self._close(control, trial, "not judged, no timesteps before it")
        elif found := worse(trial.before, figures, self.tolerance):
            control.state = replace(control.state, trial=replace(trial, verdict=found))
        else:
            self._close(control, trial)
        return True

    def _take_back(self, control: Control[Guarding]) -> None:
        """Request the way back from a trial with a verdict, until it is accepted."""
        if (trial := control.state.trial) is None:
            return
        own = next((r.id for r in reversed(control.changes) if control.requested(r)), "")
        if trial.attempts and own not in {"", trial.latest_own}:
            self._close(control, trial)
        elif crossing := trial.crossed_by(control):
            self._close(control, trial, f"{trial.verdict}; {crossing} has changed the same since")
        elif trial.attempts and control.timestep < trial.asked + self.window:
            return
        elif trial.attempts >= MOST_ATTEMPTS:
            self._close(control, trial, f"{trial.verdict}; its way back is refused each time")
        elif (back := trial.way_back(control.configuration)) is None:
            self._close(control, trial, f"{trial.verdict}; there is no way back from it")
        else:
            control.reconfigure(back, reason=f"takes {trial} back: {trial.verdict}")
            control.state = replace(control.state, trial=trial.asking(control.timestep, own))

    def _close(self, control: Control[Guarding], trial: Trial, note: str = "") -> None:
        control.state = Guarding(over=max(control.state.over, trial.last(control.changes)))
        if note:
            control.note(f"{trial}: {note}")
