"""Asks tasks what they had to do and who sent them how much: the channel matrix of a timestep. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest

from rechannel.kernels.protocol.control import ControlChannel, OperatorHandler, TaskView
from rechannel.model.codec import row

MOST_CHANNELS = 16
"""Channels of a task that count, those with most bytes."""


@row
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLoad:
    """What a task had to do."""

    task: int
    rows: int
    busy_ms: float
    """Without waiting for rows."""
    channels: tuple[tuple[str, int, int], ...] = ()
    """(operator, task, bytes) by which the bytes came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What tasks of an operator had to do, ascending by task."""

    tasks: tuple[TaskLoad, ...] = ()


class AskTraffic(OperatorHandler):
    """Replies with the load of a task, and with the bytes that came on its channels."""

    reply_type = Traffic

    def __init__(self) -> None:
        self._channels: Counter[tuple[str, int]] = Counter()

    def on_next(self, task: TaskView, channel: ControlChannel) -> None:
        """Count what came on a channel."""
        del task
        self._channels[channel.operator, channel.task] += channel.bytes

    def on_complete(self, task: TaskView) -> Traffic:
        """The load of this task."""
        load = TaskLoad(
            task=task.task,
            rows=task.rows_in,
            busy_ms=sum(task.ms.values()) - task.ms.get("wait", 0.0),
            channels=_heaviest(self._channels),
        )
        return Traffic(tasks=(load,))

    def merge(self, one: Traffic, other: Traffic) -> Traffic:
        """The loads of both."""
        return Traffic(tasks=tuple(sorted((*one.tasks, *other.tasks), key=lambda load: load.task)))


def _heaviest(channels: Mapping[tuple[str, int], int]) -> tuple[tuple[str, int, int], ...]:
    found = nlargest(MOST_CHANNELS, channels.items(), key=lambda each: (each[1], each[0]))
    return tuple((operator, task, size) for (operator, task), size in sorted(found) if size)


def together(one: Mapping[str, Traffic], other: Mapping[str, Traffic]) -> Mapping[str, Traffic]:
    """Return the sum of two timesteps, by operator."""
    return {
        name: Traffic(
            tasks=_summed(one.get(name, Traffic()).tasks, other.get(name, Traffic()).tasks)
        )
        for name in sorted({*one, *other})
    }


def _summed(one: Sequence[TaskLoad], other: Sequence[TaskLoad]) -> tuple[TaskLoad, ...]:
    by_task: dict[int, list[TaskLoad]] = {}
    for load in (*one, *other):
        by_task.setdefault(load.task, []).append(load)
    return tuple(
        TaskLoad(
            task=task,
            rows=sum(load.rows for load in loads),
            busy_ms=sum(load.busy_ms for load in loads),
            channels=_heaviest(
                sum((Counter({(o, t): b}) for x in loads for o, t, b in x.channels), Counter())
            ),
        )
        for task, loads in sorted(by_task.items())
    )
