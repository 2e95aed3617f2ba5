"""A finding: what is the matter, where, what to change, and what that would gain. Pure values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from rechannel.profiling.model.words import percent, seconds

WEIGHT = 0.1
"""A finding whose gain is at least this share of the run's length has weight: it may lead a report."""


class Certainty(StrEnum):
    """How sure a finding is."""

    CERTAIN = "certain"
    """The log says so."""
    LIKELY = "likely"
    """It follows from figures of the log, and from an assumption that the text names."""
    POSSIBLE = "possible"
    """Something else may have the same signs; the text says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A figure that supports a finding."""

    name: str
    """What it is the figure of, such as `longest task`."""
    value: float
    unit: str = ""
    """s, B, rows, %, x, or nothing for a count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where it is, with the numbers that the pages of Spark have."""

    job: int | None = None
    stage: int | None = None
    attempt: int | None = None
    execution: int | None = None
    """Of Spark SQL."""
    batch: int | None = None
    executor: str = ""
    host: str = ""
    operator: str = ""
    """Nodes of the plan, or the operator of a Rechannel job."""
    worker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that stands out."""

    cause: str
    """Its name in the registry of findings, such as `skew`."""
    text: str
    """What is the matter: whole sentences."""
    advice: str
    """What to change: a sentence that names the setting or the part of the program."""
    gain: float | None
    """How much shorter the run would be once the cause is mended, as a share of its length; None if not computed."""
    seconds: float | None = None
    """The same in seconds."""
    certainty: Certainty = Certainty.LIKELY
    place: Place = Place()
    evidence: tuple[Evidence, ...] = ()
    share: float | None = None
    """Share of the critical path."""

    @property
    def weighty(self) -> bool:
        """Whether it may lead a report."""
        return self.gain is not None and self.gain >= WEIGHT


def gained(found: Finding) -> str:
    """Return the gain in words: 40 % of the run, 16 s; "" if it was not computed."""
    share = [] if found.gain is None else [f"{percent(found.gain)} of the run"]
    length = [] if found.seconds is None else [seconds(found.seconds)]
    return ", ".join(share + length)


def ordered(found: Iterable[Finding]) -> list[Finding]:
    """Return findings in the order of a report: those with weight by their gains, then the rest by what they are
    at most.
    """
    return sorted(found, key=_rank)


def _rank(each: Finding) -> tuple[bool, float, str, str]:
    gain = each.gain or 0.0
    most = gain if each.weighty else max(gain, each.share or 0.0)
    # What differs only by rounding is equal.
    return not each.weighty, -round(most, 9), each.cause, each.text
