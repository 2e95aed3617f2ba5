"""What a reader of a timeline looks for: numbers of jobs and stages, hosts, and which operator reads from which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class MarkKind(StrEnum):
    """What a mark stands for, from the longest to the shortest."""

    TIMESTEP = "timestep"
    """Of a Rechannel job."""
    BATCH = "batch"
    """Of a stream."""
    EXECUTION = "SQL execution"
    JOB = "job"
    STAGE = "stage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something with a number that lasted from one time to another."""

    what: MarkKind
    number: int
    start: int
    """Nanoseconds."""
    end: int
    """Nanoseconds."""
    name: str = ""
    """Its description, or the stream that it belongs to."""
    attempt: int = 0
    """Of a stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landmarks:
    """What is known of an application beside its trace."""

    marks: Sequence[Mark] = ()
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Where workers ran, by name of the worker or of its executor (`executor 3`)."""
    links: Sequence[tuple[str, str]] = ()
    """Names of operators of which the second reads what the first writes."""
