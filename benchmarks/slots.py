"""Slots that wait: tasks take as long for a row as on a core of their own, however few cores there are.

What a row costs in a slot is waited for, inside of the task, so that many slots fit on few cores. Rows, keys, state and
files are real. A task waits until as much time has passed since it began as its rows cost: what it computes on the way
is a part of that, as long as it is less. So the wait is in the time for which the task is useful, as work would be, and
its figures look the same.

Functions before an exchange wait as a function of the dataflow does (`Slot`). An operator with state waits in its
logic, for every row that reaches it (`slowed`). Users' jobs are not touched by either: `SlotJob` changes the programs
that it ships, the calls that its tasks make, and the Configuration that it begins with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import rechannel as rc
from rechannel.model.configuration import Combine, Configuration
from rechannel.model.routing import Routing

if TYPE_CHECKING:
    import pyarrow as pa

    from rechannel.assembly import Seams
    from rechannel.kernels.protocol.logic import OperatorInput, OperatorOutput, StatefulLogic


@dataclass
class _Task:
    """The task that runs in this process."""

    began: float | None = None
    """`time.perf_counter()`; None = not known, in a process that runs no task of `SlotJob`."""
    costs: float = 0.0
    """Seconds, of its rows up to now."""

    def wait(self, seconds: float) -> None:
        """Wait until the task has taken what its rows cost, with some more that cost `seconds`."""
        self.costs += seconds
        if self.began is None:
            time.sleep(seconds)
        else:
            time.sleep(max(0.0, self.began + self.costs - time.perf_counter()))


_task = _Task()


@dataclass(frozen=True)
class Begun:
    """What a task runs, with the time at which it began."""

    call: Callable[[Any], Iterator[pa.RecordBatch]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run it."""
        _task.began, _task.costs = time.perf_counter(), 0.0
        yield from self.call(batches)


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A function that returns rows when their time has passed. seconds: per row."""

    seconds: float

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Wait."""
        _task.wait(rows.num_rows * self.seconds)
        return rows


def slowed(logic: StatefulLogic, seconds: float) -> StatefulLogic:
    """Return the logic as one that takes so many seconds for every row that it receives."""
    held = {one.name: getattr(logic, one.name) for one in fields(logic)}  # type: ignore[arg-type] # a dataclass
    slow: StatefulLogic = _slow(type(logic), seconds, held)
    return slow


def _slow(of: type, seconds: float, held: Mapping[str, Any]) -> Any:
    slow: Any = object.__new__(_slow_class(of, seconds))
    for name, value in held.items():
        object.__setattr__(slow, name, value)
    return slow


@lru_cache(maxsize=64)
def _slow_class(of: type, seconds: float) -> type:
    """Return a class with all that another one can do, whose `apply` waits."""

    def apply(self: Any, arrivals: OperatorInput) -> OperatorOutput:
        made: OperatorOutput = of.apply(self, arrivals)  # type: ignore[attr-defined]
        _task.wait(arrivals.groups.rows * seconds)
        return made

    def reduced(self: Any) -> tuple[Any, ...]:
        return _slow, (of, seconds, {one.name: getattr(self, one.name) for one in fields(self)})

    return type(f"Slow{of.__name__}", (of,), {"apply": apply, "__reduce__": reduced})


@dataclass(frozen=True)
class _Stages:
    """Stages whose tasks note when they begin."""

    of: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.of, name)

    def call(self, rows: Any, function: Any, profile: Any) -> Any:
        """See `rechannel.engine.spark.stages.Stages`."""
        return self.of.call(rows, Begun(function), profile)


class SlotJob(rc.Job):
    """A job whose operators with state take some seconds per row, and that begins with some tasks, both by name.

    Rows are not combined before the exchange, so that as many reach an operator as its producer makes.
    """

    def with_slots(self, seconds: Mapping[str, float], tasks: Mapping[str, int]) -> SlotJob:
        """Return the job with these. Others are as fast, and begin with as many, as they would."""
        self._seconds, self._begins = dict(seconds), dict(tasks)
        return self

    def _seams(self, clock: Callable[[], float], in_process: Any) -> Seams:
        seams = super()._seams(clock, in_process)

        def engine(current: Any, cluster: Any) -> Any:
            program = replace(current.program, programs=self._slowed(current.program.programs))
            runner: Any
            runner, rows_of = seams.engine(replace(current, program=program), cluster)
            if in_process is None:
                runner.stages = _Stages(runner.stages)
            return runner, rows_of

        return replace(seams, engine=engine, configure=self._configured)

    def _slowed(self, programs: Mapping[str, Any]) -> dict[str, Any]:
        slow = dict(programs)
        for name, seconds in self._seconds.items():
            slow[name] = replace(slow[name], logic=slowed(slow[name].logic, seconds))
        return slow

    def _configured(self, first: Configuration) -> Configuration:
        operators = {}
        for name, operator in first.operators.items():
            tasks = self._begins.get(name, operator.tasks)
            even = operator.routing and Routing.even(bins=operator.routing.bins, tasks=tasks)
            operators[name] = replace(operator, tasks=tasks, routing=even, combine=Combine.OFF)
        return replace(first, operators=operators)
