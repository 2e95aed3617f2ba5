"""The word count of Heron (Dhalion, VLDB'17; DS2, OSDI'18, section 5.2) and what was published of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SENTENCES = 1e6 / 60
"""That the source emits per second."""
SPLIT = 1e5 / 60
"""Sentences per second that an instance of FlatMap splits."""
COUNTED = 1e6 / 60
"""Words per second that an instance of Count counts."""
WORDS = 20
"""Of a sentence."""
FLATMAP, COUNT = "flatmap", "count"
LEAST: Mapping[str, int] = {FLATMAP: 10, COUNT: 20}
"""Instances that keep up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A run from one instance each on Heron, figures 1 and 6 of DS2."""

    decisions: int
    seconds: float
    """Until the last decision."""
    instances: Mapping[str, int]


PUBLISHED: Mapping[str, Published] = {
    "ds2": Published(decisions=1, seconds=60, instances=LEAST),
    "dhalion": Published(decisions=6, seconds=2000, instances={FLATMAP: 22, COUNT: 30}),
}
