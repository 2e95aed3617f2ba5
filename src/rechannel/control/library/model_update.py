"""Trains a model again when its predictions get worse, and puts it in force between two timesteps (Trisk, section 5).

The tasks of the operator `labelled` have predictions and labels as state. Every few timesteps they count a confusion
matrix (`quality.py`). When F1 falls below a bound (`retraining.py`), they hand over their latest cases, `train` makes
parameters of these in the controllers' thread; a blocking operation assigns `operator` what `factory` makes of them.
"""

from __future__ import annotations

from rechannel.control.controller import Control, Controller, Outcome
from rechannel.control.library import retraining
from rechannel.control.library.quality import AskCases, AskQuality, Cases, Confusion, table_of
from rechannel.control.library.records import free_since
from rechannel.control.library.retraining import CHANGING, SAMPLING, Rules, Updating
from rechannel.control.loading import ImportPath
from rechannel.control.operation import MOST_REPLY_BYTES, Operation, operation
from rechannel.control.triggers import every
from rechannel.dataflow.identity.factories import written
from rechannel.dataflow.identity.logic import load_logic
from rechannel.errors import RefusedError
from rechannel.kernels.protocol.control import OperatorHandler
from rechannel.reconfigure.changes.change import PROGRAM
from rechannel.reconfigure.changes.program import assign_logic

SECONDS = 10.0
"""That a handler may take in a task."""


class ModelUpdate(Controller):
    """Keeps F1 of a model above a bound."""

    def __init__(  # noqa: PLR0913 - all but four have defaults
        self,
        *,
        operator: str,
        factory: ImportPath,
        train: ImportPath,
        labelled: str,
        predicted: str = "predicted",
        actual: str = "actual",
        at: str = "at",
        bound: float = 0.6,
        margin: float = 0.05,
        least: int = 50,
        patience: int = 2,
        window_ms: int = 60_000,
        sample: int = 2_000,
        timesteps: int = 1,
    ) -> None:
        """Take the names, the columns of `labelled` and the rules. sample: most cases to train on.

        train: import path of (pyarrow.Table of cases) -> parameters of `factory`, by name.
        Raises RefusedError, DataflowError.
        """
        if not 0 < bound <= bound + margin <= 1 or min(least, patience, window_ms, sample) < 1:
            given = f"{bound=}, {margin=}, {least=}, {patience=}, {window_ms=}, {sample=}"
            msg = f"ModelUpdate({given}): give 0 < bound <= bound + margin <= 1 and the others >= 1"
            raise RefusedError(msg)
        load_logic(factory)
        self.operator, self.factory, self.train = operator, factory, load_logic(train)
        self.labelled, self.sample = labelled, sample
        self.cases = Cases(predicted=predicted, actual=actual, at=at)
        self.rules = Rules(
            bound=bound, margin=margin, least=least, patience=patience, window_ms=window_ms
        )
        self.trigger = every(timesteps=timesteps)

    def quality(self, since: int) -> OperatorHandler:
        """Return a handler that replies with a `Confusion`. To be overridden for cases in another form."""
        return AskQuality(self.cases, since)

    def on_init(self) -> Updating:
        """Nothing is known."""
        return Updating()

    def on_begin(self, control: Control[Updating]) -> Operation | None:
        """Count, ask for cases, or change the model."""
        state, here = control.state, [self.labelled]
        if state.phase == SAMPLING:
            ask = AskCases(self.cases, state.latest - self.rules.window_ms, self.sample)
            return operation(ask, operators=here, reply_bytes=MOST_REPLY_BYTES, seconds=SECONDS)
        count = self.quality(state.since(self.rules))
        if state.phase != CHANGING:
            return operation(count, operators=here, seconds=SECONDS)
        if free_since(control.changes, PROGRAM) is None:
            return None
        control.state = retraining.tried(state)
        if control.state.phase != CHANGING:
            control.note("the change was refused too often: its parameters are given up")
            return None
        change = assign_logic(self.operator, self.factory, dict(state.parameters or {}))
        return operation(count, operators=here, blocking=True, change=change, seconds=SECONDS)

    def on_complete(self, control: Control[Updating], outcome: Outcome) -> None:
        """Conclude, train, or begin to judge. What training raises is a failure of this callback."""
        state, reply = control.state, outcome.replies.get(self.labelled)
        if outcome.failures:
            control.note(outcome.failures[0].error.strip().splitlines()[-1])
        if state.phase == SAMPLING:
            if reply is None:
                raise LookupError(f"operator {self.labelled!r} has handed over no cases")
            control.state = retraining.trained(state, written(self.train(table_of(reply))))
        elif state.phase == CHANGING:
            control.state = retraining.changed(state, reply or Confusion())
            control.note(f"update {control.state.updates}: F1 was {state.f1:.2f}")
        elif reply is not None:
            control.state, note = retraining.measured(state, reply, self.rules)
            control.metric("f1", control.state.f1, operator=self.operator)
            if note:
                control.note(note)
