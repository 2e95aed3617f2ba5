"""Advice from a state directory: its telemetry has what was measured, its journal the Configurations and decisions.

Neither Spark nor the program of the job is needed, and the job may run meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from rechannel.advising.stream import stream_advice
from rechannel.engine.journal.reading import read_only
from rechannel.engine.program.identity import read_identity
from rechannel.scaling.files.request import Request
from rechannel.scaling.needs.asked import Asked
from rechannel.scaling.needs.values import StreamAdvice
from rechannel.state.keys import IDENTITY
from rechannel.state.stores.local import Durability
from rechannel.state.stores.locations import open_backing
from rechannel.telemetry.saved import SavedReader

TELEMETRY = "telemetry"


@dataclass(frozen=True, slots=True)
class StateDirectories:
    """State directories of jobs."""

    what: str = "a state directory of a job"

    def reads(self, place: Path) -> bool:
        """Whether a job has claimed a directory."""
        return (place / IDENTITY).is_file()

    def advise(self, place: Path, asked: Request) -> StreamAdvice:
        """Return what the job needs. Raises RefusedError, DamagedStateError, NewerFormatError."""
        store = open_backing(place, Durability.PROCESS)
        state = read_only(store)
        bad: list[str] = []
        saved = SavedReader(place / TELEMETRY, bad=bad.append).read()
        notes = (
            [f"telemetry: {len(bad)} bad lines are left out, the first: {bad[0]}"] if bad else []
        )
        return stream_advice(
            replace(saved, job=read_identity(store).name),
            state.board,
            asked_of(asked),
            configurations=[each for _, each in state.configurations],
            notes=notes,
        )


def asked_of(asked: Request) -> Asked:
    """Return what is asked of a stream, from what is asked of files. Raises RefusedError."""
    return Asked(
        policy=asked.policy,
        utilisation=asked.utilisation,
        window_s=asked.window_s,
        interval_ms=asked.interval_ms,
        rate=asked.rate,
        cores_per_executor=asked.executor_cores,
    )
