"""What the routes that only look ask of a job: of one that runs, or of a state directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rechannel.model.configuration import Configuration
from rechannel.monitoring import Act, DataflowNode, Flow, OperatorBins, SinkStatus
from rechannel.running import RunningJob
from rechannel.serve import answers
from rechannel.telemetry.facts import TimestepProgress


class Watched(Protocol):
    """A job that is looked at. Any thread may call it."""

    @property
    def name(self) -> str:
        """Its name."""

    def status(self) -> dict[str, Any]:
        """Its status, its operators, the offsets of its sources, and its lag."""

    def configuration(self) -> Configuration:
        """What the next timestep runs under. Raises NotReadyError before the first driver."""

    def progress(self) -> Sequence[TimestepProgress]:
        """The last committed timesteps, oldest first."""

    def reconfigurations(self, last: int) -> list[dict[str, Any]]:
        """The newest reconfigurations, oldest first."""

    def open_reconfigurations(self) -> list[dict[str, Any]]:
        """Those that are not over."""

    def reconfiguration(self, id_: str) -> dict[str, Any]:
        """One of them. Raises NotReadyError if there is none."""

    def acts(self) -> Sequence[Act]:
        """What else was done."""

    def sinks(self) -> Mapping[str, SinkStatus]:
        """How far each sink is behind the commits."""

    def nodes(self) -> Sequence[DataflowNode]:
        """The dataflow."""

    def bins(self) -> Mapping[str, OperatorBins]:
        """The bins of each operator with state."""

    def flow(self) -> Flow:
        """What the latest timesteps did."""


class Live:
    """A running job."""

    def __init__(self, job: RunningJob) -> None:
        """Look at this job."""
        self._job = job

    @property
    def name(self) -> str:
        """Its name."""
        return self._job.name

    def status(self) -> dict[str, Any]:
        """Its status, its operators, the offsets of its sources, and its lag."""
        return answers.status_of(self._job)

    def configuration(self) -> Configuration:
        """What the next timestep runs under."""
        return self._job.configuration

    def progress(self) -> Sequence[TimestepProgress]:
        """The last committed timesteps, oldest first."""
        return self._job.recent_progress

    def reconfigurations(self, last: int) -> list[dict[str, Any]]:
        """The newest reconfigurations, oldest first, with the number of bins that they still have to move."""
        return answers.history_of(self._job, last)

    def open_reconfigurations(self) -> list[dict[str, Any]]:
        """Those that are not over."""
        return answers.open_reconfigurations(self._job)

    def reconfiguration(self, id_: str) -> dict[str, Any]:
        """One of them. Raises NotReadyError if there is none."""
        return answers.reconfiguration_of(self._job, id_)

    def acts(self) -> Sequence[Act]:
        """What else was done."""
        return self._job.acts

    def sinks(self) -> Mapping[str, SinkStatus]:
        """How far each sink is behind the commits."""
        return self._job.sinks

    def nodes(self) -> Sequence[DataflowNode]:
        """The dataflow."""
        return self._job.nodes

    def bins(self) -> Mapping[str, OperatorBins]:
        """The bins of each operator with state."""
        return self._job.bins()

    def flow(self) -> Flow:
        """What the latest timesteps did."""
        return self._job.flow()
