"""Streams made of values, for tests of findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rechannel.profiling.spark.application import Application
from tests.unit.profiling.diagnosis.made import application, batch, execution, executor, job, task

BATCHES = 8


def stream(
    *,
    work: int = 3_500,
    before: int = 300,
    after: int = 200,
    every: int = 0,
    tasks: Callable[[int], Sequence[dict[str, Any]]] | None = None,
    batches: int = BATCHES,
    broadcast: bool = False,
    **more: Callable[[int], Any],
) -> Application:
    """A stream whose batches plan, work in tasks, and commit, ms; the next one comes at once, or after some ms.

    tasks: of batch n, from their first start on. broadcast: whether its job brings one side of a join to the driver.
    more: fields of batch n, as functions of n.
    """
    things: list[Any] = [executor("driver", 0, cores=4)]
    ran: list[dict[str, Any]] = []
    at = 1_000
    for number in range(batches):
        begin, end = at + before, at + before + work
        fields = {
            "rows": 100,
            "phases": {"addBatch": work + after, "commitOffsets": 50},
            **{name: tell(number) for name, tell in more.items()},
        }
        things += [
            batch(number, at, end + after, **fields),
            execution(number, at + 50, end + after),
            job(
                number,
                begin,
                end,
                execution=number,
                batch=number,
                query="orders",
                stages=(number,),
                broadcast=broadcast,
            ),
        ]
        some = (
            tasks(number)
            if tasks
            else [task(number, i, 0, work, "driver", rows=100) for i in range(4)]
        )
        ran += [
            {
                name: value + begin if name in {"launch", "finish", "getting"} else value
                for name, value in each.items()
            }
            for each in some
        ]
        at = max(end + after, at + every)
    return application(at, ran, *things)


def hot(number: int) -> list[dict[str, Any]]:
    """One task of four has most of the rows."""
    return [
        task(number, i, 0, 3_500 if i == 2 else 500, "driver", rows=7_000 if i == 2 else 1_000)
        for i in range(4)
    ]


def growing(number: int) -> list[dict[str, Any]]:
    """State that makes batches longer."""
    return [task(number, i, 0, 1_000 + 500 * number, "driver", rows=100) for i in range(4)]
