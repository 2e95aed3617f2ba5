"""Run small timesteps in this process, and all others on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rechannel.engine.program.physical import PhysicalPlan
from rechannel.engine.spark.calls import Shipped
from rechannel.engine.spark.runner import SparkRunner
from rechannel.engine.stages.inprocess import InProcessRunner
from rechannel.engine.stages.runner import Placed, Timestep
from rechannel.errors import ClusterError, RechannelError, TimestepError, one_sentence
from rechannel.kernels.protocol.program import StageProgram, StageStep
from rechannel.kernels.tasks.unit_report import UnitReport
from rechannel.sources.reader import SourceReader, explained


class InlineRunner:
    """Runs a timestep where its `inline` says."""

    def __init__(self, spark: SparkRunner, here: InProcessRunner) -> None:
        """spark, here: what runs timesteps there, and in this process; both run the same program."""
        self._spark, self._here = spark, here
        here.programs = _Copies(here.programs)
        self._inline: set[int] = set()

    @property
    def placing(self) -> Any:
        """What places tasks of Spark; None if it chooses itself."""
        return self._spark.placing

    def open(self, timestep: Timestep) -> None:
        """Remember where a timestep runs."""
        self._spark.open(timestep)
        self._inline.discard(timestep.number)
        if timestep.inline is not None:
            self._inline.add(timestep.number)
            self._here.open(timestep)

    def run(self, timestep: int, stage: str, step: StageStep) -> Sequence[UnitReport]:
        """Run a unit. Raises as `Runner.run` does."""
        if timestep not in self._inline:
            return self._spark.run(timestep, stage, step)
        try:
            return self._here.run(timestep, stage, step)
        except RechannelError:
            raise
        except (OSError, MemoryError) as error:
            msg = f"this host cannot run timestep {timestep} in the driver: {one_sentence(error)}"
            raise ClusterError(msg) from error
        except Exception as error:
            known = explained(error, self._here.readers.values())
            msg = (
                f"operator {stage!r} failed in timestep {timestep}, which the driver ran itself; nothing of it was"
                f" committed, and a restart runs it again: {one_sentence(error)}"
            )
            raise known or TimestepError(msg) from error

    def placed(self) -> Placed:
        """Where tasks of Spark run."""
        return self._spark.placed()

    def kept(self, timestep: int, node: str, keys: list[str]) -> None:
        """See `Runner.kept`."""
        self._spark.kept(timestep, node, keys)

    def switch_to(
        self,
        plan: PhysicalPlan,
        programs: Mapping[str, StageProgram],
        readers: Mapping[str, SourceReader],
    ) -> None:
        """Run another version of the dataflow from now on."""
        self._spark.switch_to(plan, programs, readers)
        self._here.switch_to(plan, _Copies(programs), readers)

    def release(self, timestep: int) -> None:
        """Free what a timestep held."""
        self._inline.discard(timestep)
        self._here.release(timestep)
        self._spark.release(timestep)

    def cancel(self) -> None:
        """Cancel what runs on Spark. What runs here comes to its end."""
        self._spark.cancel()

    def gone(self) -> str | None:
        """See `Runner.gone`."""
        return self._spark.gone()

    def starved(self) -> str | None:
        """See `Runner.starved`."""
        return self._spark.starved()

    def meaning(self, error: BaseException, sink: str, timestep: int) -> BaseException:
        """See `Runner.meaning`."""
        return self._spark.meaning(error, sink, timestep)

    def close(self) -> None:
        """Free everything."""
        self._here.close()
        self._spark.close()


class _Copies(Mapping[str, StageProgram]):
    """Programs as a worker would have them: made of their bytes, so that no function shares a value with the driver."""

    def __init__(self, programs: Mapping[str, StageProgram]) -> None:
        self._programs = programs
        self._copies: dict[str, StageProgram] = {}

    def __getitem__(self, stage: str) -> StageProgram:
        if stage not in self._copies:
            self._copies[stage] = Shipped.of(self._programs[stage]).program()
        return self._copies[stage]

    def __iter__(self) -> Iterator[str]:
        return iter(self._programs)

    def __len__(self) -> int:
        return len(self._programs)
