"""Sinks that keep nothing themselves: a user's function, and none at all."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rechannel.errors import RechannelError
from rechannel.kernels.functions.user_errors import function_name, user_error
from rechannel.sinks.batch import Batch
from rechannel.sinks.writer import Rows, Staged, UnsharedWriter

if TYPE_CHECKING:
    from rechannel.sinks.outlets import BatchWriter


@dataclass
class ForEachBatchWriter(UnsharedWriter):
    """Calls a function with the rows and the number of every timestep, and with its `Batch` if it
    takes three arguments.

    The call is part of staging, because the rows of a sink directly after a source exist only
    then, and the commit waits for it, so no timestep is missed. After a crash the call is
    repeated: at least once, with the same rows under the same number.
    """

    name: str
    function: BatchWriter
    durable: bool = True

    def stage(self, rows: Rows, batch: Batch) -> Staged:
        """Call the function with a DataFrame, or with an Arrow table if there is no Spark.

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
        """Do nothing: the function has published its output."""


def takes_batch(function: Callable[..., Any]) -> bool:
    """Return whether a function has a third argument for the `Batch`: without a default, or
    annotated with it.
    """
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
class NoopWriter(UnsharedWriter):
    """Computes the rows and drops them."""

    durable: bool = False

    def stage(self, rows: Rows, batch: Batch) -> Staged:
        """Run the frame, if there is one: rows after a stage have already been computed."""
        del batch
        if rows.frame is not None:
            rows.frame.write.format("noop").mode("overwrite").save()
        return {}

    def publish(self, staged: Staged, batch: Batch) -> None:
        """Do nothing: there is no output."""
