"""Summaries of bounded size over many timesteps, from Apache DataSketches, as text that a state can hold."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rechannel.errors import RefusedError

LG_KEYS = 8
"""Logarithm of the size of a table of keys: 0.75 * 2^8 = 192 keys; counts are off by at most 1.4 % of all of them."""
LATENCIES = 100
"""Of KLL: quantiles are off by some 3 % of the ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCount:
    """A key that may be heavy, and bounds of how many rows it had."""

    key: str
    rows: int
    """Estimate, which is the upper bound."""
    least: int


def library() -> Any:
    """Return the package. Raises RefusedError with how to install it."""
    try:
        import datasketches
    except ImportError as error:
        msg = "Monitor needs the package 'datasketches': pip install 'rechannel[control]'"
        raise RefusedError(msg) from error
    return datasketches


def counted(sketch: str, keys: Iterable[tuple[str, int]]) -> str:
    """Return a sketch of keys after more (key, rows). sketch: "" = none yet."""
    kind = library().frequent_strings_sketch
    made = kind.deserialize(b64decode(sketch)) if sketch else kind(LG_KEYS)
    for key, rows in keys:
        made.update(key, rows)
    return b64encode(made.serialize()).decode()


def heaviest_of(sketch: str, most: int) -> tuple[KeyCount, ...]:
    """Return the keys with most rows, no heavier one left out."""
    known = library()
    made = known.frequent_strings_sketch.deserialize(b64decode(sketch))
    found = made.get_frequent_items(known.frequent_items_error_type.NO_FALSE_NEGATIVES)
    found = sorted(found, key=lambda each: (-each[1], each[0]))[:most]
    return tuple(KeyCount(key=key, rows=rows, least=least) for key, rows, least, _ in found)


def timed(sketch: str, ms: float) -> str:
    """Return a sketch of times after one more. sketch: "" = none yet."""
    kind = library().kll_floats_sketch
    made = kind.deserialize(b64decode(sketch)) if sketch else kind(LATENCIES)
    made.update(ms)
    return b64encode(made.serialize()).decode()


def quantile(sketch: str, share: float) -> float:
    """Return the time that a share of all times does not exceed."""
    made = library().kll_floats_sketch.deserialize(b64decode(sketch))
    return float(made.get_quantile(share))
