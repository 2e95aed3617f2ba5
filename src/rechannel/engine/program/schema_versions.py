"""Ways between eras of an operator's state. Pure.

An era is a name for what stored state means: its columns, and from when on they were in force. State of the present era
is read as it is. From every other era that is still stored, passages lead to it: each says what converts state of one
era (`from`) into state of another (`to`). So passages are a tree, and the present era is its root.

- A live change that converts state adds a passage from the era before to a new one, which is the root from then on.
- A change that is led back turns its passage around. The era before is the root again: what was written before the
  change and what is written after the return mean the same, and neither goes through the migration that was given up.
- A leaf of which nothing is stored goes: its passage is not needed.

A passage is a mapping for the journal: `from`, `to`, `migration`, `back` (what converts the other way, or null) and
`no_way_back` (why there is none). In journals of before there is no `to`: passages were a chain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from rechannel.model.codec import Json

Passages = Sequence[Mapping[str, Json]]
"""Those of one operator, in the order in which they were made."""

UNKNOWN = "the release that made the change did not keep what leads back"
TIMED = "what it converts follows from the time of the change"
LOST = "the return gave up columns that the change had added; ask for the change again while the job runs"


def directed(way: Passages, present: str) -> list[dict[str, Json]]:
    """Passages that all say where they lead. present: the era that a chain ends in."""
    ends = [one["from"] for one in way[1:]] + [present]
    return [{"to": end, **one} for one, end in zip(way, ends, strict=False)]


def pruned(way: Passages, stored: Collection[str], *, left: str | None = None) -> list[Any]:
    """Those that something stored still needs. left: an era that is written until the border."""
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
    """The passages with another era as their root, or why that cannot be.

    stored: eras of which there is state, None = not known; asked only where something cannot be turned around.
    """
    by_source = {one["from"]: one for one in way}
    there: list[dict[str, Json]] = []
    era = target
    while (passage := by_source.get(era)) is not None:
        there.append(_turned(by_source.pop(era)))
        era = passage["to"]
    if not there:
        return "all of its state was written anew since, and what led back is forgotten"
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
    """Why a passage that is turned around cannot be turned again; "" where it can.

    Which rows have been written anew in between is up to merging. So it must not matter: there and back, nothing may be
    lost. Of two functions of the user that is their promise.
    """
    if forth["expired_before_ms"] is not None:
        return TIMED
    promised = back is not None and back["using"] is not None
    if promised or all("carry" in step for step in forth["steps"]):
        return ""
    return LOST


def _without_why(passage: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in passage.items() if name != "why"}
