"""Held-out applications: labelled, like the others, before their logs were made, but on which no detector was tuned.

They are written as users of Spark write programs, with real work, on other operators, sizes and settings than those of
the first suite. What was found when their logs were first read stays written down here, whatever is found today.
"""

from __future__ import annotations

from pathlib import Path

from tests.unit.profiling.labelled.labels import (
    ADAPTIVE,
    BROADCAST,
    CLUSTER,
    LOCAL,
    MEMORY,
    SHUFFLE,
    TWO_CORES,
    Label,
)

LOGS = Path(__file__).parent / "logs"
THREE_CORES = "local[3]"
COALESCE = "spark.sql.adaptive.coalescePartitions.enabled"


def _held_out(
    name: str,
    family: str,
    cause: str,
    *,
    accepted: tuple[str, ...] = (),
    master: str = LOCAL,
    settings: dict[str, str] | None = None,
) -> Label:
    return Label(
        name=name,
        family=f"held_out.{family}",
        cause=cause,
        accepted=accepted,
        master=master,
        settings=settings or {},
        logs=LOGS,
    )


HELD_OUT = (
    _held_out(
        "clicks-in-order",
        "tables",
        "skew",
        master=THREE_CORES,
        settings={SHUFFLE: "12", COALESCE: "true"},
    ),
    _held_out(
        "pages-seen-together",
        "tables",
        "skew",
        settings={SHUFFLE: "24", ADAPTIVE: "false", BROADCAST: "-1"},
    ),
    _held_out("paths-of-users", "tables", "skew", accepted=("python-function",)),
    _held_out(
        "distinct-events",
        "tables",
        "spill",
        accepted=("garbage-collection",),
        master=TWO_CORES,
        settings={MEMORY: "600m", "spark.memory.fraction": "0.3"},
    ),
    _held_out(
        "latest-orders",
        "tables",
        "spill",
        accepted=("garbage-collection",),
        master=THREE_CORES,
        settings={MEMORY: "700m", SHUFFLE: "3", "spark.memory.fraction": "0.25"},
    ),
    _held_out(
        "customers-broadcast",
        "tables",
        "broadcast-building",
        settings={MEMORY: "3g", BROADCAST: "2g", SHUFFLE: "8", COALESCE: "true"},
    ),
    _held_out(
        "median-prices",
        "tables",
        "garbage-collection",
        master=TWO_CORES,
        settings={MEMORY: "560m"},
    ),
)
