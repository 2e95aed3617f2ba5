"""What each task of a stage reads and merges in one timestep, worked out by the task itself.

All tasks of a stage are sent the same value, and there may be thousands of them. So the driver only says which runs
there are; a task picks its own, and plans the merges that are due in them. Since that is a pure function of what was
sent, every attempt of a task plans the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from rechannel.kernels.protocol.program import SharedState, TaskState
from rechannel.model.hashspace import Intervals
from rechannel.model.routing import Routing
from rechannel.state.manifest import Manifest
from rechannel.state.merging import BASE_LEVEL, Merge, MergePolicy, plan_merges
from rechannel.state.run import Run


@dataclass(frozen=True, kw_only=True)
class TaskStates(Sequence[TaskState]):
    """The state of each task, made when it is asked for."""

    manifests: Sequence[Manifest]
    """What each task reads, clipped to what it owns."""
    routing: Routing
    timestep: int
    policy: MergePolicy
    rewrite: Intervals | None = None
    """Hashes to write anew, whichever task owns them."""
    lasts_us: int | None = None
    """See `plan_merges`."""
    shared: Mapping[int, tuple[SharedState, ...]] = field(default_factory=dict)
    """Spread bins that a task shares, by task."""
    _made: dict[int, TaskState] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was made."""
        return {**self.__dict__, "_made": {}}

    def __len__(self) -> int:
        """Return the number of tasks."""
        return len(self.manifests)

    @overload
    def __getitem__(self, index: int) -> TaskState: ...

    @overload
    def __getitem__(self, index: slice) -> list[TaskState]: ...

    def __getitem__(self, index: int | slice) -> TaskState | list[TaskState]:
        """Return the state of a task, or of several."""
        if isinstance(index, slice):
            tasks = range(*index.indices(len(self)))
            return [
                self._state(task, held)
                for task, held in zip(tasks, self.manifests[index], strict=True)
            ]
        task = range(len(self))[index]
        if task not in self._made:
            self._made[task] = self._state(task, self.manifests[task])
        return self._made[task]

    def _state(self, task: int, held: Manifest) -> TaskState:
        own, runs = self.routing.intervals_of(task), held.state
        where = own.intersect(self.rewrite) if self.rewrite else Intervals.nothing()
        merges = (
            _rewrites(runs, where)
            if where
            else plan_merges(runs, own, self.timestep, self.policy, self.lasts_us)
        )
        return TaskState(
            own=own,
            runs=runs,
            merges=merges,
            totals=held.no_state,
            shared=self.shared.get(task, ()),
        )


def _rewrites(runs: Sequence[Run], where: Intervals) -> tuple[Merge, ...]:
    """Return what writes the state in some hashes anew; nothing if none is there."""
    met = sorted({run.seq for run in runs if run.clip.intersect(where)}, reverse=True)
    anew = Merge(seqs=tuple(met), where=where, level=BASE_LEVEL, bottom=True)
    return (anew,) if met else ()
