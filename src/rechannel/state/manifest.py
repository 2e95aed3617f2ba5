"""The manifest: which runs make up the state of an operator, as a value.

Besides its state, an operator may keep *totals*: values derived from the state, kept so that they
need not be computed from all of it again. Totals are runs with columns of their own and a level
below 0; if they are missing, nothing is lost.

A *run* is one segment clipped to hash intervals. For one hash, the run with the highest `seq` that
contains it wins; runs with the same `seq` contain different hashes, or different keys of a hash
that has more rows than fit into one file. The manifest does not say who reads a run: a task reads
every run that meets the intervals it owns. Moving a bin therefore changes the routing table and
nothing else, and the size of a manifest depends on tasks, runs and moved bins.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, overload
from weakref import ref

from rechannel.model.codec import Json, written
from rechannel.model.hashspace import Intervals
from rechannel.model.routing import Routing
from rechannel.state.run import Run, run_from_json, run_to_json
from rechannel.state.run_table import Retired, RunTable, retired

WIDE = 512
"""A manifest of more runs keeps them as columns, from then on. Of few runs, Python's own values are faster."""


def _runs_to_json(runs: Sequence[Run]) -> Json:
    """Return runs as a list, or columns as the text of their bytes."""
    if isinstance(runs, RunTable):
        return {"arrow": b64encode(runs.to_bytes()).decode()}
    return [run_to_json(run) for run in runs]


def _runs_from_json(data: Json) -> Sequence[Run]:
    if isinstance(data, dict):
        return RunTable.from_bytes(b64decode(data["arrow"], validate=True))
    return tuple(run_from_json(each) for each in data)


class _Remembers:
    """Room for what an edit was applied to last, and what came of it. No part of its value."""

    __slots__ = ("_applied",)
    _applied: tuple[Sequence[Run], ref[Manifest]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit(_Remembers):
    """What one timestep changes in a manifest."""

    retire: tuple[Retired, ...] = ()
    """Pairs (seqs, intervals): in these hashes, runs with these seqs no longer count, because they
    were merged.
    """
    add: Annotated[Sequence[Run], written(encode=_runs_to_json, decode=_runs_from_json)] = ()
    """New runs: a tuple, or a `RunTable` of those of many tasks."""

    def __post_init__(self) -> None:
        """Take a list as the tuple that it was written from."""
        if isinstance(self.add, list):
            object.__setattr__(self, "add", tuple(self.add))


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Manifest:
    """The live state of one operator at one timestep: runs, newest first."""

    runs: Sequence[Run] = ()
    """A tuple, or a `RunTable` where there are many."""

    def apply(self, edit: Edit) -> Manifest:
        """Return the manifest after one timestep. Runs that no longer count anywhere are dropped.

        The driver's loop and its journal both apply an edit: the second one gets what the first one has made.
        """
        runs, after = getattr(edit, "_applied", (None, None))
        known = after() if after is not None and runs is self.runs else None
        made = known or Manifest(self._after(edit))
        object.__setattr__(edit, "_applied", (self.runs, ref(made)))
        return made

    def __reduce__(self) -> tuple[type[Manifest], tuple[Sequence[Run]]]:
        """Pickle the runs."""
        return Manifest, (self.runs,)

    def _after(self, edit: Edit) -> Sequence[Run]:
        if isinstance(self.runs, RunTable) or isinstance(edit.add, RunTable):
            return RunTable.of(self.runs).applied(edit.retire, edit.add)
        gone = retired(edit.retire)
        kept = (_without(run, gone[run.seq]) if run.seq in gone else run for run in self.runs)
        runs = [run for run in kept if run.clip] + list(edit.add)
        ordered = sorted(runs, key=lambda run: -run.seq)
        return RunTable.of(ordered) if len(ordered) > WIDE else tuple(ordered)

    @property
    def state(self) -> tuple[Run, ...]:
        """Runs that hold state, newest first."""
        return tuple(run for run in self.runs if run.level >= 0)

    @property
    def no_state(self) -> tuple[Run, ...]:
        """Runs that hold totals, or changes to them."""
        return tuple(run for run in self.runs if run.level < 0)

    @property
    def size(self) -> tuple[int, int]:
        """Rows of the runs that hold state, and bytes of all runs, before clipping."""
        if isinstance(self.runs, RunTable):
            return self.runs.size
        rows = sum([run.rows for run in self.runs if run.level >= 0])
        return rows, sum([run.size for run in self.runs])

    def waiting(self, after: int, until: int) -> Iterable[str]:
        """Return the segments of state of which a row may have a timer for an event time in (after, until]."""
        if isinstance(self.runs, RunTable):
            return self.runs.waiting(after, until)
        return (run.segment for run in self.state if run.waits(after, until))

    def ringing(self, after: int, until: int) -> Iterable[str]:
        """The same of processing time, beside timers of event time."""
        if isinstance(self.runs, RunTable):
            return self.runs.ringing(after, until)
        return (run.segment for run in self.state if run.rings(after, until))

    def changed_since(self, timestep: int, watermark: int) -> bool:
        """Return whether later timesteps have written rows of state that wait for times beyond a watermark."""
        if isinstance(self.runs, RunTable):
            return self.runs.changed_since(timestep, watermark)
        return any(
            run.seq > timestep and run.due is not None and run.due[1] > watermark
            for run in self.state
        )

    def within(self, where: Intervals) -> tuple[Run, ...]:
        """Return the runs of state that meet the given hashes, clipped to them, newest first."""
        return tuple(run for run in self._met(where) if run.level >= 0)

    def totals(self, where: Intervals) -> tuple[Run, ...]:
        """Return the runs of totals that meet the given hashes, clipped to them."""
        return tuple(run for run in self._met(where) if run.level < 0)

    def _met(self, where: Intervals) -> tuple[Run, ...]:
        if isinstance(self.runs, RunTable):
            return self.runs.within(where)
        return _clipped(self.runs, where)

    def by_task(self, routing: Routing) -> Sequence[Manifest]:
        """Return what each task reads: every run that meets the hashes that it owns, clipped to them."""
        if isinstance(self.runs, RunTable):
            return _Parts(self.runs, routing)
        parts: list[list[Run]] = [[] for _ in range(routing.tasks)]
        for run in self.runs:
            for task in routing.tasks_in(run.clip):
                parts[task] += _clipped((run,), routing.intervals_of(task))
        return [Manifest(tuple(part)) for part in parts]

    def segments(self) -> set[str]:
        """Return the keys of all segments that count."""
        if isinstance(self.runs, RunTable):
            return self.runs.segments()
        return {run.segment for run in self.runs}


@dataclass(frozen=True)
class _Parts(Sequence[Manifest]):
    """What each task reads, made of a table when it is asked for: so that the driver does not, but each task."""

    runs: RunTable
    routing: Routing

    def __len__(self) -> int:
        """Return the number of tasks."""
        return self.routing.tasks

    @overload
    def __getitem__(self, index: int) -> Manifest: ...

    @overload
    def __getitem__(self, index: slice) -> list[Manifest]: ...

    def __getitem__(self, index: int | slice) -> Manifest | list[Manifest]:
        """Return what a task reads, or several of them."""
        tasks = range(len(self))[index]
        if isinstance(tasks, int):
            return Manifest(self.runs.within(self.routing.intervals_of(tasks)))
        owned = self.runs.by_owner(*self.routing.pieces, self.routing.tasks)
        return [Manifest(owned[task]) for task in tasks]


def _without(run: Run, where: Intervals) -> Run:
    left = run.clip.subtract(where)
    return run if left is run.clip else replace(run, clip=left)


def _clipped(runs: Iterable[Run], where: Intervals) -> tuple[Run, ...]:
    out = []
    for run in runs:
        if run.clip.spans == where.spans:
            out.append(run)
        elif clip := run.clip.intersect(where):
            out.append(replace(run, clip=clip))
    return tuple(out)
