"""What publishing asks of others: the rows of a sink, and a function that is told when they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from rechannel.engine.program.physical import Frame, SinkBufferFrame, SinkPlan, leaves
from rechannel.engine.stages.runner import Timestep
from rechannel.sinks.writer import Rows


class RowsOf(Protocol):
    """Makes the rows of a frame readable for a sink."""

    def __call__(
        self, sink: SinkPlan, decided: Timestep | None, kept: Mapping[str, list[str]]
    ) -> Rows:
        """Rows of a sink's frame. decided: needed only by frames over sources."""


class Meaning(Protocol):
    """What an error means that came out of a sink's attempt at a timestep."""

    def __call__(self, error: BaseException, sink: str, timestep: int) -> BaseException:
        """The error of this library that it stands for, with its cause; itself where that is nothing else."""


def as_it_is(error: BaseException, sink: str, timestep: int) -> BaseException:
    """Every error says itself what it is."""
    del sink, timestep
    return error


class Told(Protocol):
    """Told when a sink has shown a timestep. It must not raise and must not block."""

    def __call__(self, timestep: int, sink: str, *, duration_ms: float, again: bool) -> None:
        """again: published a second time, after a restart."""


def nobody(timestep: int, sink: str, *, duration_ms: float, again: bool) -> None:
    """Tell no one."""


def kept_for(frame: Frame, kept: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Outbox files that a frame reads."""
    nodes = [leaf.node for leaf in leaves(frame) if isinstance(leaf, SinkBufferFrame)]
    return {node: list(kept.get(node, [])) for node in nodes}
