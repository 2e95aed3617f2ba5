"""Which requests of producers are in the log. Pure.

A producer that gives itself a name numbers its requests from 1 on without gaps, and sends the next one when the one
before is acknowledged. So the log has kept all numbers up to the last one, and nothing after it:

    last + 1         is new
    up to last       was kept: it is acknowledged again
    beyond last + 1  is refused: a request in between has not arrived, and would be taken for kept later

The last number of a producer is in the head of the file that has its rows; what is known after file n is the fold of
the heads up to n, and the same for every server. It is bounded: beyond `MOST` producers, the one that has been silent
for longest is forgotten. It is then unknown: a number other than 1 is refused, so that nothing is kept twice, unless a
forgotten producer repeats its very first request.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rechannel.errors import RefusedError
from rechannel.sources.ingest.format import Kept

MOST = 100_000
"""Producers whose last request is known."""


class Verdict(StrEnum):
    """What becomes of a request."""

    NEW = "new"
    REPEATED = "repeated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered:
    """A request as its producer names it."""

    producer: str
    sequence: int
    digest: str
    """XXH3-128 of its body, in hex."""


@dataclass(slots=True)
class Producers:
    """The last request of each producer; the one that has been silent for longest comes first."""

    most: int = MOST
    _kept: OrderedDict[str, Kept] = field(default_factory=OrderedDict)

    def learn(self, producers: Mapping[str, Kept]) -> None:
        """Add what the head of the next file says."""
        for name in sorted(producers):
            self._kept[name] = producers[name]
            self._kept.move_to_end(name)
        while len(self._kept) > self.most:
            self._kept.popitem(last=False)

    def last(self, producer: str) -> Kept | None:
        """Return the last request of a producer; None if it is unknown."""
        return self._kept.get(producer)

    def items(self) -> Iterable[tuple[str, Kept]]:
        """Return all of them, in their order."""
        return self._kept.items()

    def __len__(self) -> int:
        return len(self._kept)


@dataclass(slots=True)
class Round:
    """Requests that are judged for one file, in order."""

    producers: Producers
    kept: dict[str, Kept] = field(default_factory=dict)
    """What the head of the file says of producers."""

    def judge(self, one: Numbered) -> Verdict:
        """Return what becomes of a request. Raises RefusedError, with the number that is expected."""
        before = self.kept.get(one.producer) or self.producers.last(one.producer)
        last = 0 if before is None else before.sequence
        if before is not None and one.sequence == last and one.digest != before.digest:
            raise RefusedError(
                f"request {one.sequence} of producer {one.producer!r} was kept with other rows: two processes may use"
                " one name; give each its own"
            )
        if one.sequence <= last:
            return Verdict.REPEATED
        if one.sequence > last + 1:
            raise RefusedError(_unexpected(one, last))
        self.kept[one.producer] = Kept(sequence=one.sequence, digest=one.digest)
        return Verdict.NEW


def _unexpected(one: Numbered, last: int) -> str:
    if not last:
        return (
            f"producer {one.producer!r} is unknown, and its requests are numbered from 1 on, not {one.sequence}. If it"
            f" was known once: {MOST:,} other producers have come since; go on under a new name"
        )
    return (
        f"producer {one.producer!r} has sent {one.sequence} after {last}: send {last + 1} first, and each request when"
        " the one before is acknowledged"
    )
