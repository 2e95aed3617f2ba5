"""What runs timesteps of a job again, as the running job knows it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from rechannel.assembly import Parts, ReplayText
from rechannel.dataflow.evolution.evolution import Logic
from rechannel.engine.journal.state import JournalState
from rechannel.errors import NotReadyError, RefusedError
from rechannel.replayed import Replay


@dataclass(frozen=True, kw_only=True)
class Replayable:
    """A running job as a replay sees it."""

    text: ReplayText
    program: int
    """Version of the dataflow that runs."""
    state: JournalState
    """Its versions are held while the replay runs."""

    def check(self, asked: range, program: int) -> None:
        """Raise RefusedError unless the timesteps ran under the program that runs now. program: that of then."""
        if program == self.program:
            return
        since = [t for t, held in self.state.configurations if held.dataflow == self.program]
        oldest = f"; the oldest timestep of the present one is {since[0]}" if since else ""
        msg = (
            f"timesteps {asked[0]} to {asked[-1]} ran under version {program} of the dataflow, and version"
            f" {self.program} runs now{oldest}. Replay earlier ones with the program of then:"
            " rc.Job(..., state=...).replay(...)"
        )
        raise RefusedError(msg)


class Replayer(Protocol):
    """Runs timesteps of a running job again."""

    def __call__(
        self,
        job: Replayable,
        timesteps: range,
        *,
        examples: int,
        directory: str | os.PathLike[str] | None,
    ) -> Replay:
        """See `RunningJob.replay`."""


@contextmanager
def replayable(parts: Parts, timesteps: range, logic: Mapping[str, Logic]) -> Iterator[Replayable]:
    """The job for a replay of some timesteps; no sweep removes what they need until the block ends.

    Raises NotReadyError if it is removed already.
    """
    state, program = parts.journal.state, parts.switch.current.program
    wanted = [t for t in state.versions if timesteps.start - 1 <= t < timesteps.stop]
    with ExitStack() as held:
        for timestep in wanted:
            try:
                held.enter_context(parts.held.hold(lambda: parts.journal.state, timestep))
            except NotReadyError as error:
                msg = (
                    f"timestep {timestep} is no longer kept: the job has gone on. Ask for later timesteps, or start the"
                    " job with a larger Settings(keep_versions=...)"
                )
                raise NotReadyError(msg) from error
        text = ReplayText(dataflow=program.dataflow, provided=program.provided, logic=logic)
        yield Replayable(text=text, program=program.version, state=state)
