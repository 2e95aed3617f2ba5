"""Several changes as one: accepted whole or not at all, resolved one after the other. Pure.

They are made step by step as the strategy of the request wants; all at once, all of them hold from one timestep on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from msgspec import Meta

from rechannel.errors import RefusedError
from rechannel.model.configuration import Configuration
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.changes.registry import KINDS, registered
from rechannel.reconfigure.stream_facts import StreamFacts

__all__: list[str] = []

MOST_CHANGES = 50
"""Changes in one list."""

MOST_BINS_IN_ALL = 1 << 21
"""Bins that the changes of a list visit in all: they are resolved in the driver's thread."""


@registered
@dataclass(frozen=True, slots=True)
class Together(Change):
    """Several changes that are accepted together, or not at all."""

    kind = "together"
    requestable = False

    changes: Annotated[tuple[Change, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        """Check that the list is flat. Raises RefusedError."""
        Change.__post_init__(self)
        if any(isinstance(change, Together) for change in self.changes):
            msg = "together: changes: a list of changes cannot contain another one; give one flat list"
            raise RefusedError(msg)

    @classmethod
    def from_fields(cls, given: Mapping[str, Any]) -> Self:
        """The changes of the list, each from its JSON form."""
        changes = given.get("changes")
        if not isinstance(changes, list | tuple) or given.keys() != {"changes"}:
            msg = "together: changes: expected a list of changes, and no other field"
            raise RefusedError(msg)
        return cls(tuple(map(KINDS.read, changes)))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values: the kind, and every change."""
        return {"kind": self.kind, "changes": [change.to_json() for change in self.changes]}

    def __str__(self) -> str:
        """One after the other."""
        return ", ".join(map(str, self.changes))

    def touches(self) -> frozenset[str]:
        """What any of them touches."""
        return frozenset().union(*(change.touches() for change in self.changes))

    def about(self) -> frozenset[str]:
        """What any of them is about."""
        return frozenset().union(*(change.about() for change in self.changes))

    def resolved(self, configuration: Configuration, facts: StreamFacts) -> Configuration:
        """The Configuration after all of them, one after the other."""
        if len(self.changes) > MOST_CHANGES:
            msg = (
                f"{len(self.changes)} changes in one list are too many; at most {MOST_CHANGES}:"
                " send several requests"
            )
            raise RefusedError(msg)
        bins = 0
        for change in self.changes:
            configuration = change.resolved(configuration, facts)
            bins += _bins_of(change, configuration)
            if bins > MOST_BINS_IN_ALL:
                msg = (
                    f"a list of {len(self.changes)} changes visits more than {MOST_BINS_IN_ALL} bins:"
                    " send several requests"
                )
                raise RefusedError(msg)
        return configuration

    def advice(
        self, before: Configuration, after: Configuration, facts: StreamFacts
    ) -> tuple[str, ...]:
        """What each of them says, where its turn comes."""
        del after
        advice_of_all: list[str] = []
        for change in self.changes:
            here = change.resolved(before, facts)
            advice_of_all.extend(change.advice(before, here, facts))
            before = here
        return tuple(advice_of_all)

    @property
    def executors_needed(self) -> int | None:
        """What the last of them needs, because that is what the Configuration gets."""
        return _last(change.executors_needed for change in self.changes)

    @property
    def program_version(self) -> int | None:
        """The version that the last of them begins."""
        return _last(change.program_version for change in self.changes)

    @property
    def names_executor(self) -> bool:
        """Whether any of them does."""
        return any(change.names_executor for change in self.changes)


def _bins_of(change: Change, configuration: Configuration) -> int:
    found = (configuration.operators.get(name) for name in change.touches())
    return sum(o.routing.bins for o in found if o is not None and o.routing is not None)


def _last(numbers: Iterable[int | None]) -> int | None:
    return next((number for number in reversed(tuple(numbers)) if number is not None), None)


def parts_of(change: Change) -> tuple[Change, ...]:
    """The changes of a list; any other change alone."""
    return change.changes if isinstance(change, Together) else (change,)


def one_change(changes: Change | Sequence[Change]) -> Change:
    """A list as one change. Raises RefusedError if it is empty or holds anything else."""
    if isinstance(changes, Change):
        return changes
    given = changes if isinstance(changes, list | tuple) else ()
    if not given or not all(isinstance(change, Change) for change in given):
        msg = f"expected a change or a list of changes, such as rc.changes.rescale('counts', tasks=8), got {changes!r}"
        raise RefusedError(msg)
    flat = [part for change in given for part in parts_of(change)]
    return flat[0] if len(flat) == 1 else Together(tuple(flat))


def spelled_out(change: Change, operators: Iterable[str]) -> Change:
    """The change with one part per operator in place of each part that means all of them."""
    names = tuple(operators)
    return one_change([made for part in parts_of(change) for made in part.spelled_out(names)])


def pinned(before: Configuration, change: Change, facts: StreamFacts) -> Change:
    """The change without anything that depends on measurements: replayed later, it leads to the same place."""
    made: list[Change] = []
    for part in parts_of(change):
        before = part.resolved(before, facts)
        made.append(part.pinned(before, facts))
    return one_change(made)
