"""Passages between the schema versions of an operator's state. Pure.

A state schema version names what stored state means: its columns, and since when they are in force. State of the
present version is read unchanged. From every other version that is still stored, passages lead to the present one; each
passage says what converts state of one version (`from`) into state of another (`to`). Passages form a tree, and the
present version is its root.

- A live change that converts state adds a passage from the present version to a new one, which becomes the root.
- Reverting a change reverses its passage. The earlier version is the root again: state from before the change and state
  written after the return mean the same, and neither goes through the migration that was given up.
- A leaf of which no state is stored is removed with its passage.

A passage is a mapping in the journal: `from`, `to`, `migration`, `back` (the reverse conversion, or null) and
`no_way_back` (why there is none). Older journals have no `to`: their passages are a chain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from rechannel.model.codec import Json

Passages = Sequence[Mapping[str, Json]]
"""The passages of one operator, oldest first."""

UNKNOWN = "the release that made the change did not record the way back"
TIMED = "the conversion depends on the time of the change"
LOST = "the return dropped columns that the change had added; request the change again while the job runs"


def directed(way: Passages, present: str) -> list[dict[str, Json]]:
    """Return passages that all have `to`. present: the schema version at the end of a chain."""
    ends = [one["from"] for one in way[1:]] + [present]
    return [{"to": end, **one} for one, end in zip(way, ends, strict=False)]


def pruned(way: Passages, stored: Collection[str], *, left: str | None = None) -> list[Any]:
    """Return the passages that stored state needs. left: a version that is written until the timestep boundary."""
    kept = list(way)
    while True:
        ends = {one["to"] for one in kept}
        needed = [
            one
            for one in kept
            if one["from"] in stored or one["from"] in ends or one["from"] == left
        ]
        if len(needed) == len(kept):
            return kept
        kept = needed


def turned(
    way: Passages, target: str, stored: Callable[[], frozenset[str] | None]
) -> list[dict[str, Json]] | str:
    """Return the passages with another version as their root, or why this is not possible.

    stored: returns the versions of which state is stored, None if not known; called only if a passage cannot be
    reversed.
    """
    by_source = {one["from"]: one for one in way}
    there: list[dict[str, Json]] = []
    schema_version = target
    while (passage := by_source.get(schema_version)) is not None:
        there.append(_turned(by_source.pop(schema_version)))
        schema_version = passage["to"]
    if not there:
        return "all of its state has been rewritten since, and the way back is forgotten"
    made = [*(one for one in way if one["from"] in by_source), *there]
    stuck = [one for one in made if one["migration"] is None]
    if stuck:
        known = stored()
        made = made if known is None else pruned(made, known)
        stuck = [one for one in made if one["migration"] is None]
    return stuck[-1]["why"] if stuck else [_without_why(one) for one in made]


def _turned(passage: Mapping[str, Json]) -> dict[str, Json]:
    forth, back = passage["migration"], passage.get("back")
    why_not = _why_once(forth, back)
    return {
        "from": passage["to"],
        "to": passage["from"],
        "migration": back,
        "back": None if why_not else forth,
        "no_way_back": why_not,
        "why": passage.get("no_way_back", UNKNOWN),
    }


def _why_once(forth: Mapping[str, Json], back: Mapping[str, Json] | None) -> str:
    """Return why a reversed passage cannot be reversed again; empty if it can.

    Merging decides which rows are rewritten in between, so it must not matter: a conversion there and back may lose
    nothing. For two functions of the user, that is the user's promise.
    """
    if forth["expired_before_ms"] is not None:
        return TIMED
    promised = back is not None and back["using"] is not None
    if promised or all("carry" in step for step in forth["steps"]):
        return ""
    return LOST


def _without_why(passage: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in passage.items() if name != "why"}
