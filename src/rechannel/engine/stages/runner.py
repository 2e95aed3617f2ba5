"""The seam between the driver's loop and what executes stages: Spark, or this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rechannel.engine.program.physical import PhysicalPlan
from rechannel.kernels.protocol.control import ControlMessage
from rechannel.kernels.protocol.program import StageProgram, StageStep
from rechannel.kernels.tasks.unit_report import UnitReport
from rechannel.model.configuration import Configuration
from rechannel.sources.reader import Offset, SourceReader, Split


@dataclass(frozen=True, kw_only=True)
class SourceSlice:
    """What one source contributes to a timestep."""

    start: Offset
    end: Offset
    layout: tuple[Split, ...]


@dataclass(frozen=True, kw_only=True)
class Timestep:
    """A timestep that was decided: what it reads and how it runs. A replay is given the same value."""

    number: int
    stream_ms: int
    configuration: Configuration
    slices: Mapping[str, SourceSlice] = field(default_factory=dict)
    controls: tuple[ControlMessage, ...] = ()
    """Control operations that travel with it."""
    inline: Configuration | None = None
    """Its Configuration with one task of each operator, if the driver runs it itself; None = the runner's tasks do."""

    @property
    def cut_by(self) -> Configuration:
        """The Configuration that says how it is cut into tasks."""
        return self.configuration if self.inline is None else self.inline


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Where the tasks of operators with state run. Empty with fewer than two executors, and without Spark."""

    executors: Mapping[str, int] = field(default_factory=dict)
    """Cores of each executor that takes tasks, by its id."""
    tasks: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """Executor of each task, by operator."""


class Runner(Protocol):
    """Executes the stages of timesteps. Methods may be called from several threads, for different units."""

    def open(self, timestep: Timestep) -> None:
        """Learn of a timestep before its first stage runs."""

    def run(self, timestep: int, stage: str, step: StageStep) -> Sequence[UnitReport]:
        """Run a unit and return the reports that have arrived with it, one per operator.

        A source stage may run lazily: its reports then arrive with the first consumer's. Raises TimestepError or
        UserFunctionError.
        """

    def placed(self) -> Placed:
        """Where tasks run. Any thread may ask."""

    def kept(self, timestep: int, node: str, keys: list[str]) -> None:
        """Learn the sink-buffer files of a node once its stage has run: later frames read them."""

    def switch_to(
        self,
        plan: PhysicalPlan,
        programs: Mapping[str, StageProgram],
        readers: Mapping[str, SourceReader],
    ) -> None:
        """Run another version of the dataflow from now on. No timestep is open."""

    def release(self, timestep: int) -> None:
        """Free what a committed timestep held."""

    def cancel(self) -> None:
        """Stop everything under way."""

    def gone(self) -> str | None:
        """Why nothing can run any more, in a sentence; None while it can. Any thread may ask."""

    def starved(self) -> str | None:
        """Why no task can begin now, in a sentence; None if that is not so or not known. Any thread may ask."""

    def meaning(self, error: BaseException, sink: str, timestep: int) -> BaseException:
        """What an error means that came out of a sink's attempt at a timestep; see `sink_rows.Meaning`."""

    def close(self) -> None:
        """Free everything."""
