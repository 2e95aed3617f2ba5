"""A change that is looked at and not requested, and the channels between operators before and after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from rechannel.engine.program.physical import PhysicalPlan
from rechannel.engine.program.position import StreamPosition
from rechannel.engine.program.versions import Program
from rechannel.engine.reconfigure.opener import Opener
from rechannel.engine.reconfigure.switch import ProgramSwitch, successor_of
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.edits import ChangeSet
from rechannel.reconfigure.topology.values import Channels, Upstreams


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """All changes as one."""

    change: Change
    channels: Channels
    program: Program | None = None
    """The version that would take over; None if the program stays. `upgrade` is set if a text is deployed."""


@contextmanager
def proposed_change(
    asked: ChangeSet, switch: ProgramSwitch, opener: Opener, position: StreamPosition
) -> Iterator[Proposal]:
    """All requested changes as one, for a plan: no version waits for it, and no initial state is loaded.

    Raises RefusedError, DataflowError; then nothing stays open.
    """
    here = upstreams_of(switch.current.plan)
    if not asked.edits:
        yield Proposal(change=asked.together(), channels=Channels.both(here))
        return
    switch.check_free()
    change, ready = successor_of(asked, switch, opener, position)
    try:
        channels = Channels(before=here, after=upstreams_of(ready.plan))
        program = replace(ready.program, upgrade=ready.upgrade)
        yield Proposal(change=asked.together(change), channels=channels, program=program)
    finally:
        switch.put_away(ready)


def upstreams_of(plan: PhysicalPlan) -> Upstreams:
    """By stage, the stages whose rows it receives, through an exchange or from their sink buffers, or whose table."""
    return {stage.name: stage.needs for stage in plan.stages}
