"""What a stage does, in words: the keys of its join or aggregation, from the arguments of its plan's nodes."""

from __future__ import annotations

import re
from collections.abc import Sized
from dataclasses import dataclass

from rechannel.profiling.diagnosis.case import Case
from rechannel.profiling.diagnosis.task_table import StageKey
from rechannel.profiling.diagnosis.words import short
from rechannel.profiling.model.finding import Place
from rechannel.profiling.spark.application import Stage

JOINED = "join on"
"""What a join does."""
_KEYED = (
    (re.compile(r"^(?:SortMerge|ShuffledHash)Join\S*(?: skew=true)? \[(.*?)\], \["), JOINED),
    (re.compile(r"^(?:CoGroup|FlatMapCoGroups)\w* \[(.*?)\]"), "grouped join on"),
    (
        re.compile(
            r"^\w*(?:GroupsInPandas|GroupsInArrow|MapGroups|WithState)\w* (?:\w+\(.*?\)#\d+L?, )?\[(.*?)\]"
        ),
        "groups by",
    ),
    (re.compile(r"^\w*Aggregate\(keys?=\[(.*?)\]"), "aggregation by"),
    (re.compile(r"^Window(?:GroupLimit)? \[.*?\], \[(.*?)\]"), "window over"),
    (re.compile(r"^\S*Exchange hashpartitioning\((.*?), \d+\)"), "rows by"),
    (re.compile(r"^Sort \[(.*?)\]"), "sort by"),
)
"""Nodes with keys, and what they do; the first that matches names a stage."""
_ID = re.compile(r"#\d+L?")
_ORDER = re.compile(r" (?:ASC|DESC)(?: NULLS (?:FIRST|LAST))?")
_KEYS = 3
"""Keys that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyed:
    """A node of a plan that brings rows of the same key together."""

    what: str
    """Such as `join on`."""
    keys: str

    @property
    def text(self) -> str:
        """Such as `join on customer`."""
        return f"{self.what} {self.keys}"


def keyed(stage: Stage | None) -> Keyed | None:
    """Return the join, aggregation, window or repartitioning of a stage; None if it has none with a key."""
    for pattern, what in _KEYED:
        for node in () if stage is None else stage.details:
            found = pattern.match(node)
            if found and found[1]:
                keys = _ORDER.sub("", _ID.sub("", found[1])).split(", ")
                more = f" and {len(keys) - _KEYS} more" if len(keys) > _KEYS else ""
                return Keyed(what=what, keys=", ".join(keys[:_KEYS]) + more)
    return None


def called(case: Case, key: StageKey) -> str:
    """Return the name of a stage with what it does: Stage 12 (join on customer)."""
    stage = case.app.stages.get(key)
    number = f"{key[0]}.{key[1]}" if key[1] else str(key[0])
    node = keyed(stage)
    does = node.text if node else "" if stage is None else stage.name
    return f"Stage {number} ({short(does)})" if does else f"Stage {number}"


def alike(stages: Sized) -> str:
    """Return how many more stages there are like the first of some, as an insertion."""
    more = len(stages) - 1
    return f", like {more} other{'' if more == 1 else 's'}," if more else ""


def place_of(case: Case, key: StageKey) -> Place:
    """Return where a stage is."""
    stage = case.app.stages.get(key)
    job = case.job_of(key)
    known = case.app.jobs.get(job) if job is not None else None
    execution = stage.execution if stage is not None else None
    return Place(
        job=job,
        stage=key[0],
        attempt=key[1],
        execution=execution if execution is not None or known is None else known.execution,
        batch=None if known is None else known.batch,
        operator="" if stage is None else " > ".join(stage.nodes) or stage.name,
    )
