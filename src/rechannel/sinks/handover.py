"""Sinks that keep nothing themselves: a function of the user, and none at all."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rechannel.errors import RechannelError
from rechannel.kernels.functions.user_errors import function_name, user_error
from rechannel.sinks.batch import Batch
from rechannel.sinks.outlets import BatchWriter
from rechannel.sinks.writer import Rows, Staged


@dataclass
class ForEachBatchWriter:
    """Calls a function with the rows and the number of every timestep, and its `Batch` if it takes three.

    The call is part of staging, because the rows of a sink straight behind a source exist only
    then; and the commit waits for it, so no timestep is missed. A crash behind the call repeats it:
    at least once, with the same rows under the same number.
    """

    name: str
    function: BatchWriter
    durable: bool = True

    def begin(self) -> None:
        """No other driver matters to it."""

    def stage(self, rows: Rows, batch: Batch) -> Staged:
        """Call the function: with a DataFrame, or with an Arrow table where there is no Spark.

        Raises UserFunctionError with the user's traceback.
        """
        given = rows.table() if rows.frame is None else rows.frame
        try:
            more = (batch,) if takes_batch(self.function) else ()
            self.function(given, batch.timestep, *more)
        except RechannelError:
            raise
        except Exception as error:
            called = (
                f"{function_name(self.function)} of sink {self.name!r}, timestep {batch.timestep},"
            )
            raise user_error(called, error) from error
        return {}

    def publish(self, staged: Staged, batch: Batch) -> None:
        """The function has published whatever it makes."""

    def close(self) -> None:
        """Nothing is held."""


def takes_batch(function: Callable[..., Any]) -> bool:
    """Whether a function has a third argument for the `Batch`: one without a default, or one that is annotated so."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    by_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(by_place) < 3:
        return False
    third = by_place[2]
    asked = third.annotation if isinstance(third.annotation, str) else ""
    annotated = third.annotation is Batch or asked.rpartition(".")[2] == "Batch"
    return third.default is third.empty or annotated


@dataclass
class NoopWriter:
    """Makes the rows and drops them."""

    durable: bool = False

    def begin(self) -> None:
        """No other driver matters to it."""

    def stage(self, rows: Rows, batch: Batch) -> Staged:
        """Run the frame, if there is one: rows behind a stage have been made already."""
        del batch
        if rows.frame is not None:
            rows.frame.write.format("noop").mode("overwrite").save()
        return {}

    def publish(self, staged: Staged, batch: Batch) -> None:
        """Nothing to show."""

    def close(self) -> None:
        """Nothing is held."""
