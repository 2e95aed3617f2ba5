"""Limits that a run has to keep: `skew>20%`, `any>30s`, `slower>10%`. Pure.

A limit names a cause of findings (or `any` of them) and the largest gain that is tolerated, as a share of the run's
length or in seconds. It is broken by a finding whose mending would gain more. `slower` limits by how much the second of
two runs may be longer than the first.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from rechannel.dataflow.graph.durations import microseconds
from rechannel.errors import DataflowError, RefusedError
from rechannel.profiling.model.finding import gained

if TYPE_CHECKING:
    from rechannel.profiling.model.comparison import Comparison
    from rechannel.profiling.model.finding import Finding

ANY, SLOWER = "any", "slower"
_FORM = re.compile(r"\s*([^>]*?)\s*>\s*(.*?)\s*")
_SHARE = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s*%")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The largest gain, or the largest slowdown, that is tolerated."""

    text: str
    """As it was written."""
    cause: str
    """A cause of findings, `any` or `slower`."""
    share: float | None = None
    """Of the run's length; None if the limit is in seconds."""
    seconds: float | None = None


def read_limit(text: str, causes: Collection[str]) -> Limit:
    """Read a limit. causes: those that there are. Raises RefusedError."""
    found = _FORM.fullmatch(text)
    if found is None or not found[1]:
        msg = (
            f"{text!r} is not a limit: write a cause, '>' and a gain in per cent or with a unit of time, such as"
            " 'skew>20%', 'any>10%' or 'spill>30s'"
        )
        raise RefusedError(msg)
    cause, amount = spelt(found[1]), found[2]
    _check_cause(text, cause, causes)
    share = _SHARE.fullmatch(amount)
    if share is not None:
        return Limit(text=text, cause=cause, share=float(share[1]) / 100)
    try:
        length = microseconds(amount, "gain", least=0) / 1e6
    except DataflowError:
        msg = f"{amount!r} in {text!r} is neither per cent nor a length of time: write '20%', '30s' or '2 minutes'"
        raise RefusedError(msg) from None
    return Limit(text=text, cause=cause, seconds=length)


def broken(
    limits: Iterable[Limit], found: Sequence[Finding], compared: Comparison | None = None
) -> list[str]:
    """Return a line for every limit that is broken, with what breaks it most."""
    lines = []
    for limit in limits:
        if limit.cause == SLOWER:
            lines += [] if compared is None else _slower(limit, compared)
            continue
        mine = [
            each
            for each in found
            if limit.cause in {ANY, spelt(each.cause)} and _breaks(limit, each)
        ]
        if mine:
            worst = max(mine, key=lambda each: (each.gain or 0.0, each.seconds or 0.0))
            lines.append(f"{limit.text}: {worst.cause} costs {gained(worst)}. {worst.text}")
    return lines


def spelt(cause: str) -> str:
    """Return the name of a cause with hyphens and without capitals."""
    return re.sub(r"[\s_]+", "-", cause.strip().lower())


def _check_cause(text: str, cause: str, causes: Collection[str]) -> None:
    known = [ANY, SLOWER, *sorted(causes)]
    if cause in known:
        return
    near = get_close_matches(cause, known, n=1)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    msg = f"there is no cause {cause!r}, as in {text!r}.{guess} The causes are: {', '.join(known)}"
    raise RefusedError(msg)


def _breaks(limit: Limit, found: Finding) -> bool:
    """Whether mending a finding gains more than is tolerated; no if its gain was not computed."""
    if limit.share is not None:
        return found.gain is not None and found.gain > limit.share
    return found.seconds is not None and limit.seconds is not None and found.seconds > limit.seconds


def _slower(limit: Limit, compared: Comparison) -> list[str]:
    over = (
        compared.slower > limit.share
        if limit.share is not None
        else limit.seconds is not None and compared.difference > limit.seconds
    )
    return [f"{limit.text}: {compared.text}"] if over else []
