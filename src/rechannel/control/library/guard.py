"""Takes back changes that made the stream worse, of people and of other controllers.

A change is on trial from its first step on. Its figures are those of `window` timesteps before that step, and of as
many after its last one, `settle` timesteps later. Changes that overlap are one trial, judged and taken back together.
What the guard itself has taken back is never on trial, and no window reaches across it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rechannel.control.controller import Control, Controller
from rechannel.control.library.judging import Figures, Trial, between, figures_of, worse
from rechannel.control.library.way_back import way_back
from rechannel.control.triggers import every
from rechannel.errors import RefusedError
from rechannel.model.codec import decode, encode
from rechannel.model.configuration import Configuration
from rechannel.reconfigure.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarding:
    """What the guard knows."""

    over: int = -1
    """Steps up to this timestep have been judged, or are not; -1 = it has just been installed."""
    trial: Trial | None = None


class Guard(Controller):
    """Judges every change by the timesteps before and after it."""

    trigger = every(timesteps=1)

    def __init__(self, *, window: int = 10, settle: int = 2, tolerance: float = 0.25) -> None:
        """Take the rules. window, settle: timesteps. tolerance: how much worse is accepted, as a share."""
        if window < 1 or settle < 0 or not 0 < tolerance < 1:
            given = f"{window=}, {settle=}, {tolerance=}"
            raise RefusedError(f"Guard({given}): give window >= 1, settle >= 0, 0 < tolerance < 1")
        self.window, self.settle, self.tolerance = window, settle, tolerance

    def on_init(self) -> Guarding:
        """Nothing is on trial."""
        return Guarding()

    def on_begin(self, control: Control[Guarding]) -> None:
        """Put new changes on trial, and judge the trial once its window is full."""
        taken = [r for r in control.changes if r.taken]
        own = [r for r in taken if control.requested(r)]
        known = control.timestep if control.state.over < 0 else control.state.over
        over = max([known, *(r.last_timestep or 0 for r in own)])
        control.state = replace(control.state, over=over)
        for record in taken:
            if record not in own and record.taken[0].timestep > over:
                self._put_on_trial(control, record)
        trial = control.state.trial
        if trial is None:
            return
        tried = [r for r in taken if r.id in trial.ids]
        last = max((r.last_timestep or 0 for r in tried), default=trial.first)
        if trial.first <= over:
            self._close(
                control,
                last,
                f"{trial}: not judged, it overlaps with a change of the guard",
            )
        elif not any(r.open for r in tried):
            after = between(control.progress, last + self.settle - 1, control.timestep + 1)
            if len(after) >= self.window:
                self._judge(control, trial, last, figures_of(after[: self.window]))

    def _put_on_trial(self, control: Control[Guarding], record: Record) -> None:
        trial, first = control.state.trial, record.taken[0].timestep
        if trial is None:
            earlier = between(control.progress, control.state.over, first)[-self.window :]
            base = control.configuration_at(first - 1)
            trial = Trial(
                ids=(), touched=(), first=first, before=figures_of(earlier), base=encode(base)
            )
        if record.id not in trial.ids:
            touched = tuple(sorted({*trial.touched, *record.touches}))
            trial = replace(trial, ids=(*trial.ids, record.id), touched=touched)
            control.state = replace(control.state, trial=trial)

    def _judge(
        self, control: Control[Guarding], trial: Trial, last: int, after: Figures | None
    ) -> None:
        if trial.before is None or after is None:
            return self._close(control, last, f"{trial}: not judged, no timesteps before it")
        found = worse(trial.before, after, self.tolerance)
        if not found:
            return self._close(control, last)
        base = None if trial.base is None else decode(Configuration, trial.base)
        back = None if base is None else way_back(base, control.configuration, trial.touched)
        if back is None:
            return self._close(control, last, f"{trial}: {found}; there is no way back from it")
        control.reconfigure(back, reason=f"takes {trial} back: {found}")
        return self._close(control, last)

    def _close(self, control: Control[Guarding], last: int, note: str = "") -> None:
        control.state = Guarding(over=max(control.state.over, last))
        if note:
            control.note(note)
