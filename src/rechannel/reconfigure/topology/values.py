"""The meta topology of a change as a value, per operator: which tasks are one vertex, and who sends state to whom.

Tasks are kept as ranges, because an operator may have very many of them, and a plan may come from a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

from rechannel.model.codec import ABSENT, Json, form, row, written

Upstreams: TypeAlias = Mapping[str, tuple[str, ...]]
"""By operator, the operators whose rows its tasks receive, each from every task of those."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channels:
    """The edges between operators, before and after a change. They differ if the change switches the program."""

    before: Upstreams = field(default_factory=dict)
    after: Upstreams = field(default_factory=dict)

    @classmethod
    def both(cls, upstreams: Upstreams) -> Channels:
        """The same before and after."""
        return cls(before=upstreams, after=upstreams)


@dataclass(frozen=True, slots=True)
class Tasks:
    """A set of tasks of one operator, as ascending ranges [first, end) that do not touch."""

    ranges: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        """Check the order. Raises ValueError."""
        last = -1
        for first, end in self.ranges:
            if not last < first < end:
                msg = f"ranges of tasks must ascend and not touch: {self.ranges[:8]}"
                raise ValueError(msg)
            last = end

    @classmethod
    def of(cls, tasks: Iterable[int]) -> Tasks:
        """The set of these numbers."""
        ranges: list[tuple[int, int]] = []
        for task in sorted(set(tasks)):
            if ranges and ranges[-1][1] == task:
                ranges[-1] = (ranges[-1][0], task + 1)
            else:
                ranges.append((task, task + 1))
        return cls(tuple(ranges))

    def __iter__(self) -> Iterator[int]:
        for first, end in self.ranges:
            yield from range(first, end)

    def __len__(self) -> int:
        return sum(end - first for first, end in self.ranges)

    def __contains__(self, task: object) -> bool:
        return isinstance(task, int) and any(first <= task < end for first, end in self.ranges)


def _ranges(data: Json) -> Tasks:
    return Tasks(tuple((first, end) for first, end in data))


form(Tasks, encode=lambda tasks: [list(pair) for pair in tasks.ranges], decode=_ranges)


@row
@dataclass(frozen=True, slots=True, kw_only=True)
class StateEdge:
    """State that one task of an operator needs from another: from the owner of bins before to the owner after."""

    source: int
    """The task that owned the bins."""

    target: int
    """The task that owns them afterwards; the same if their state is rewritten in place."""

    bins: int
    """How many bins."""

    size: Annotated[float, written(encode=round)]
    """Estimated bytes of their state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorTopology:
    """The vertices of one operator. Each of its tasks is in exactly one of the five sets."""

    operator: str

    upstream: tuple[str, ...] = ()
    """Operators whose rows its tasks receive after the change."""

    upstream_before: Annotated[tuple[str, ...], ABSENT] = ()
    """Operators whose rows its tasks received before, where these are others."""

    unaffected: Annotated[Tasks, ABSENT] = Tasks()
    """Tasks whose state does not change: the old and the new vertex are one, by state invariance."""

    kept: Annotated[Tasks, ABSENT] = Tasks()
    """Tasks that give, get or rewrite state, and whose old and new vertex are one, by acyclic invariance."""

    replaced: Annotated[Tasks, ABSENT] = Tasks()
    """Tasks with an old and a new vertex: if these were one, too, there would be a cycle."""

    new: Annotated[Tasks, ABSENT] = Tasks()
    """Tasks that there are only after the change."""

    gone: Annotated[Tasks, ABSENT] = Tasks()
    """Tasks that there were only before the change."""

    state: Annotated[tuple[StateEdge, ...], ABSENT] = ()
    """Who sends state to whom, by numbers of tasks."""

    @property
    def untouched(self) -> bool:
        """Whether all of its tasks are unaffected."""
        return not (self.kept or self.replaced or self.new or self.gone)
