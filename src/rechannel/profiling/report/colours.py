"""The colour of every kind of activity. It is the same in every report, by day and by night.

Kinds that mean the same have the same colour, such as `processing` of Spark and `process` of a job. Families share a
hue: work on rows is blue, state green, waiting for rows sand, writing them brown, scheduling purple, the program on the
driver gold, what it moves teal, what is wasted orange. Kinds that fill a timeline differ for eyes without red or green
receptors, and all stand out from white and from black: the test of this file computes that.
"""

from __future__ import annotations

from collections.abc import Mapping
from zlib import crc32

NOTHING = "#9a9a9a"
"""Waiting and unknown activity."""

KIND_COLOURS: Mapping[str, str] = {
    "processing": "#4999fa",
    "process": "#4999fa",
    "barrier processing": "#4999fa",
    "read": "#86bdf5",
    "input": "#86bdf5",
    "lookup": "#6aa287",
    "merge": "#3f7f62",
    "deserialization": "#8fb8a8",
    "deserialise": "#8fb8a8",
    "serialization": "#5f8a7b",
    "fetch wait": "#e2b665",
    "receive": "#e2b665",
    "fetch": "#e2b665",
    "buffer": "#e2b665",
    "data message": "#c58f2b",
    "shuffle write": "#843c36",
    "write": "#843c36",
    "send": "#a8665c",
    "outbox": "#a8665c",
    "garbage collection": "#b059b0",
    "failed work": "#bc5108",
    "fetch failure": "#d97a3f",
    "speculative copy": "#dd9f78",
    "fault tolerance": "#bc5108",
    "busy waiting": "#bc5108",
    "scheduling": "#63377b",
    "control message": "#a98bc4",
    "planning": "#8a62aa",
    "batch planning": "#8a62aa",
    "broadcast building": "#4fa3a0",
    "collecting results": "#2b8480",
    "listing files": "#7fb8c4",
    "waiting for a copy": "#b08a52",
    "driver program": "#b99600",
    "commit": "#8c7200",
    "release": "#cdb63f",
    "publish": "#5aa7b0",
    "other": "#7c8794",
    "starting up": "#66788a",
    "waiting for executors": "#9fb0bf",
    "idle": "#babec1",
    "unknown": NOTHING,
    "waiting": NOTHING,
}
"""Colours by kind, in the order in which they are stacked and listed."""

SPARE = ("#4f9bb5", "#b0684f", "#7f9f3f", "#a0709c", "#c08a2c", "#5c7fc0")
"""Colours of kinds that a trace names itself: a name has one of them everywhere."""


def colour_of(kind: str) -> str:
    """Return the colour of a kind of activity, as #rrggbb."""
    return KIND_COLOURS.get(kind) or SPARE[crc32(kind.encode()) % len(SPARE)]


def in_order(kinds: list[str]) -> list[int]:
    """Return the places of kinds in the order in which they are stacked."""
    known = {kind: place for place, kind in enumerate(KIND_COLOURS)}
    return sorted(range(len(kinds)), key=lambda i: (known.get(kinds[i], len(known)), i))
