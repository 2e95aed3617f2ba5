"""Offsets of Kafka topics, and what a timestep takes of them. Pure.

The offset of a source, as the journal keeps it:

    {"topics": {topic: {"id": topic id, "next": {partition: offset of the next record}, "from": {partition: offset}}}}

beside `"begun": true` while a stream that has begun has no topics. `from` is there for partitions whose rows of this
timestep do not begin where the timestep before has ended: those that are new, and those of which records were lost. So
the ranges of a timestep follow from its two offsets alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rechannel.sources.reader import Offset, Split

SPLIT_RECORDS = 50_000
"""Offsets of a split at least, unless its partition has fewer."""
MOST_SPLITS = 64
"""Into how many splits a timestep is cut, besides one per partition."""


class Part(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The records that a partition has."""

    low: int
    """Offset of the first."""
    high: int
    """Offset after the last that may be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSeen:
    """A topic as the brokers have it."""

    id: str
    """Unlike that of every other topic, also of an earlier one with the name; empty if the brokers give none."""
    parts: Mapping[int, Ends]
    silent: frozenset[int] = frozenset()
    """Partitions whose offsets the brokers did not tell, as happens while they move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Records that were to be read and are gone."""

    part: Part
    next: int
    """Offset that was to be read."""
    low: int
    """Offset of the first record that is there."""
    why: str
    """The rest of a sentence about the partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a stream is in its topics."""

    ids: Mapping[str, str] = field(default_factory=dict)
    """By topic."""
    next: Mapping[Part, int] = field(default_factory=dict)
    begins: Mapping[Part, int] = field(default_factory=dict)
    """Of the partitions whose rows do not begin where the timestep before has ended."""
    begun: bool = False
    """Whether the stream has looked at its topics: those that it sees first afterwards are new ones."""

    def as_offset(self) -> Offset:
        """Return it as the journal keeps it."""
        topics: Offset = {}
        for topic in sorted(self.ids):
            entry = {"id": self.ids[topic], "next": _of(topic, self.next)}
            begins = _of(topic, self.begins)
            topics[topic] = entry | ({"from": begins} if begins else {})
        return {"topics": topics} | ({"begun": True} if self.begun and not topics else {})


def _of(topic: str, offsets: Mapping[Part, int]) -> dict[str, int]:
    mine = sorted((part.partition, at) for part, at in offsets.items() if part.topic == topic)
    return {str(partition): at for partition, at in mine}


def place_of(offset: Offset) -> Place:
    """Return what `Place.as_offset` was made of."""
    topics = offset["topics"]
    return Place(
        ids={topic: entry["id"] for topic, entry in topics.items()},
        next=dict(_parts(topics, "next")),
        begins=dict(_parts(topics, "from")),
        begun=bool(topics) or offset.get("begun", False),
    )


def _parts(topics: Offset, what: str) -> Iterator[tuple[Part, int]]:
    for topic, entry in topics.items():
        for partition, at in entry.get(what, {}).items():
            yield Part(topic, int(partition)), at


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a look at the brokers came to."""

    ids: Mapping[str, str]
    """By topic."""
    at: Mapping[Part, int]
    """Where the rows of a timestep begin, for all partitions."""
    begins: Mapping[Part, int]
    """Those of them that do not begin where the timestep before has ended."""
    high: Mapping[Part, int]
    lost: tuple[Lost, ...]


def found(
    place: Place,
    seen: Mapping[str, TopicSeen],
    first: Mapping[Part, int],
    wanted: Callable[[str], bool] = lambda _topic: True,
) -> Found:
    """Return where each partition is read on.

    seen: all topics that are to be read. first: where partitions begin that the stream has not read, as far as it is
    not their first record. wanted: whether a topic of a name would be read: if it is not seen, it is gone. Of a topic
    or partition that is not seen, nothing is read, and its place is kept: a topic may have had records left, and a
    partition only has no broker at the moment, or is not assigned.
    """
    lost = [
        Lost(part=Part(topic, -1), next=0, low=0, why=f"topic {topic!r} ({known}) is gone")
        for topic, known in place.ids.items()
        if topic not in seen and wanted(topic)
    ]
    at = {part: before for part, before in place.next.items() if _is_kept(part, place, seen)}
    begins, high = dict[Part, int](), dict(at)
    for topic, of in seen.items():
        anew = _is_anew(topic, place, seen)
        for partition, ends in of.parts.items():
            part = Part(topic, partition)
            high[part] = ends.high
            before = place.next.get(part)
            if before is None:
                at[part] = begins[part] = min(max(first.get(part, ends.low), ends.low), ends.high)
                continue
            why = _why_lost(before, ends, anew=anew)
            if why is None:
                at[part] = before
                continue
            # A topic that is the same has had the records before its end; of another one, none has been read.
            same = bool(of.id) and place.ids.get(topic) == of.id
            at[part] = begins[part] = ends.high if same and before > ends.high else ends.low
            lost.append(Lost(part=part, next=before, low=at[part], why=why))
    ids = dict(place.ids) | {topic: of.id for topic, of in seen.items()}
    return Found(ids=ids, at=at, begins=begins, high=high, lost=tuple(lost))


def _is_anew(topic: str, place: Place, seen: Mapping[str, TopicSeen]) -> bool:
    """Return whether a topic was deleted and made anew. Topics without ids do not say."""
    before, now = place.ids.get(topic), seen[topic].id
    return bool(before and now and before != now)


def _is_kept(part: Part, place: Place, seen: Mapping[str, TopicSeen]) -> bool:
    """Return whether nothing is seen of a partition that may be seen again."""
    if part.topic not in seen:
        return True
    return part.partition not in seen[part.topic].parts and not _is_anew(part.topic, place, seen)


def _why_lost(before: int, ends: Ends, *, anew: bool) -> str | None:
    if anew:
        return "belongs to a topic that was deleted and made anew"
    if before < ends.low:
        return (
            f"has lost {ends.low - before:,} records that were not read, by retention or deletion"
        )
    if before > ends.high:
        return (
            f"ends at {ends.high}, before offset {before} that has been read: records were lost, or the topic was made"
            " anew"
        )
    return None


def taken(looked: Found, most: int | None) -> Place:
    """Return the place after the rows of one timestep. most: offsets that it takes; None for all.

    Each partition gives the same share of what it has, so that all of them are read to their ends at the same time.
    """
    waiting = {part: max(0, looked.high[part] - at) for part, at in looked.at.items()}
    takes = shares(waiting, most, turn=sum(looked.at.values()))
    return Place(
        ids=looked.ids,
        next={part: at + takes[part] for part, at in looked.at.items()},
        begins=looked.begins,
        begun=True,
    )


_GOLDEN, _ONE = 2_654_435_769, 1 << 32
"""The golden ratio in units of 2^-32: the fractions of its multiples are spread evenly."""


def shares(waiting: Mapping[Part, int], most: int | None, turn: int = 0) -> dict[Part, int]:
    """Return how many offsets are taken of each partition: `most` in all, at least one if there is any.

    turn: the offsets that were taken before. A partition that has few gives one in some of the timesteps, evenly: its
    rows come with those of others of the same time, neither before them nor at the very end.
    """
    total = sum(waiting.values())
    if most is None or total <= most:
        return dict(waiting)
    most = max(1, most)
    start = turn // most * _GOLDEN % _ONE
    takes, passed, given = {}, 0, 0
    for part, count in waiting.items():
        passed += count
        until = (passed * most * _ONE // total + start) // _ONE  # systematic sampling
        takes[part] = until - given
        given = until
    return takes


def splits(start: Offset, end: Offset) -> list[Split]:
    """Return the ranges between two offsets, partition by partition; large ones in several splits."""
    if start == end:
        return []
    after, ranges = place_of(end), _ranges(start, end)
    total = sum(stop - first for _, first, stop in ranges)
    size = max(SPLIT_RECORDS, -(-total // MOST_SPLITS))
    made: list[Split] = []
    for part, first, stop in ranges:
        pieces = -(-(stop - first) // size)
        if not pieces:
            continue
        edges = [first + (stop - first) * number // pieces for number in range(pieces)]
        made += [
            {
                "order": len(made) + number,
                "topic": part.topic,
                "id": after.ids[part.topic],
                "partition": part.partition,
                "start": begin,
                "stop": until,
                "size": until - begin,
            }
            for number, (begin, until) in enumerate(zip(edges, [*edges[1:], stop], strict=True))
        ]
    return made


def passed(start: Offset, end: Offset) -> int:
    """Return how many offsets lie between two places."""
    return 0 if start == end else sum(stop - first for _, first, stop in _ranges(start, end))


def _ranges(start: Offset, end: Offset) -> list[tuple[Part, int, int]]:
    before, after = place_of(start), place_of(end)
    return [
        (part, after.begins.get(part, before.next.get(part, stop)), stop)
        for part, stop in sorted(after.next.items())
    ]


def left(end: Offset, high: Mapping[Part, int]) -> int:
    """Return the offsets that a place leaves unread. high: where partitions end, as last seen."""
    following = place_of(end).next
    return sum(max(0, until - following.get(part, until)) for part, until in high.items())
