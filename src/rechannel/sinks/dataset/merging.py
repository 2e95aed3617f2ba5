"""Which files of a dataset are merged next, and which are finished. Pure.

Only neighbours of one partition are merged, and only if the result has at least twice the bytes of the largest of them.
So a row is written again at most once per doubling of the file that it is in: log2(target / bytes of a timestep) times,
and mostly less, since a merge takes `FAN_IN` files where it can.

A file is finished when it has half of the target. In a partition into which nothing was written for `QUIET` timesteps,
what is left is merged whatever its sizes, and is finished then. With keys no file is ever finished, as a later row may
take the place of one in it: runs (files of one span of timesteps) are merged, of any size, and at most `MOST_RUNS` at
once, as all of them are read at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from rechannel.sinks.dataset.manifest import DataFile

FAN_IN = 8
"""Files that are worth a merge."""
MOST_RUNS = 64
"""Runs of one merge."""
QUIET = 64
"""Timesteps after which a partition is quiet."""
MOST_INLINE = 4096
"""Files that a version names itself at most: of more, the oldest are taken for finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Neighbouring files of one partition that become one, or a run of several with keys."""

    files: tuple[DataFile, ...]
    whole: bool
    """Whether nothing older is left in the partition."""

    @property
    def size(self) -> int:
        """Bytes that it reads."""
        return sum(each.size for each in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a user asked for."""

    target: int
    """Bytes of a file."""
    rows: int | None = None
    """Rows of a file; None = any number."""
    keyed: bool = False

    def is_full(self, file: DataFile) -> bool:
        """Return whether a file is large enough."""
        enough = 2 * file.size >= self.target
        return enough or (self.rows is not None and 2 * file.rows >= self.rows)


def due(files: Sequence[DataFile], policy: Policy, timestep: int) -> Merge | None:
    """Return the merge that is due; None if there is none. files: those that a version names itself."""
    for runs in _by_partition(files, policy):
        found = _among(runs, policy, timestep)
        if found is not None:
            start, stop = found
            chosen = tuple(file for run in runs[start:stop] for file in run)
            return Merge(files=chosen, whole=start == 0)
    return None


def finished(files: Sequence[DataFile], policy: Policy, timestep: int) -> tuple[DataFile, ...]:
    """Return the files that no merge will take any more, in their order."""
    if policy.keyed:
        return ()
    alone = {
        run[0][0].key
        for run in _by_partition(files, policy)
        if len(run) == 1 and _is_quiet(run, timestep)
    }
    done = [each for each in files if policy.is_full(each) or each.key in alone]
    if len(files) - len(done) > MOST_INLINE:
        known = {each.key for each in done}
        done += [each for each in files if each.key not in known][: -MOST_INLINE // 2]
    return tuple(done)


Run = Sequence[DataFile]


def _by_partition(files: Iterable[DataFile], policy: Policy) -> Iterator[list[Run]]:
    """Yield, for each partition, the runs that may still be merged, oldest first."""
    order = attrgetter("part", "first", "last")
    for _, group in groupby(sorted(files, key=order), attrgetter("part")):
        if policy.keyed:
            yield [tuple(run) for _, run in groupby(group, attrgetter("first", "last"))]
        else:
            yield [(file,) for file in group if not policy.is_full(file)]


def _among(runs: Sequence[Run], policy: Policy, timestep: int) -> tuple[int, int] | None:
    sizes = [sum(file.size for file in run) for run in runs]
    rows = [sum(file.rows for file in run) for run in runs]
    quiet = _is_quiet(runs, timestep)
    for start in range(len(runs)):
        stop, total = _extended(sizes, rows, start, policy)
        count = stop - start
        full = total * 2 >= policy.target and not policy.keyed
        # If a quiet partition has more runs than one merge takes, a large one waits for its equals here, too.
        last = quiet and not (policy.keyed and stop < len(runs))
        if count > 1 and (
            last or (2 * max(sizes[start:stop]) <= total and (count >= FAN_IN or full))
        ):
            return start, stop
    return None


def _extended(
    sizes: Sequence[int], rows: Sequence[int], start: int, policy: Policy
) -> tuple[int, int]:
    """Return where a merge from `start` ends, and its bytes: with the target, `MOST_RUNS`, or the last run."""
    total = count = 0
    for stop in range(start, len(sizes)):
        if policy.keyed and stop - start == MOST_RUNS:
            return stop, total
        if not policy.keyed and total and total + sizes[stop] > policy.target:
            return stop, total
        if (
            policy.rows is not None
            and count
            and count + rows[stop] > policy.rows
            and not policy.keyed
        ):
            return stop, total
        total, count = total + sizes[stop], count + rows[stop]
    return len(sizes), total


def _is_quiet(runs: Sequence[Run], timestep: int) -> bool:
    return bool(runs) and max(file.last for run in runs for file in run) + QUIET <= timestep
