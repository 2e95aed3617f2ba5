"""Sinks that keep nothing themselves: a function of the user, and none at all."""

from __future__ import annotations

from dataclasses import dataclass

from rechannel.errors import RechannelError
from rechannel.kernels.user_errors import function_name, user_error
from rechannel.sinks.outlets import BatchWriter
from rechannel.sinks.writer import Rows, Staged


@dataclass
class ForEachBatchWriter:
    """Calls a function with the rows and the number of every timestep.

    The call is part of staging, because the rows of a sink straight behind a source exist only
    then; and the commit waits for it, so no timestep is missed. A crash behind the call repeats it:
    at least once, with the same rows under the same number.
    """

    name: str
    function: BatchWriter
    durable: bool = True

    def stage(self, rows: Rows, timestep: int) -> Staged:
        """Call the function: with a DataFrame, or with an Arrow table where there is no Spark.

        Raises UserFunctionError with the user's traceback.
        """
        given = rows.table() if rows.frame is None else rows.frame
        try:
            self.function(given, timestep)
        except RechannelError:
            raise
        except Exception as error:
            called = f"{function_name(self.function)} of sink {self.name!r}, timestep {timestep},"
            raise user_error(called, error) from error
        return {}

    def publish(self, staged: Staged, timestep: int) -> None:
        """The function has published whatever it makes."""

    def close(self) -> None:
        """Nothing is held."""


@dataclass
class NoopWriter:
    """Makes the rows and drops them."""

    durable: bool = False

    def stage(self, rows: Rows, timestep: int) -> Staged:
        """Run the frame, if there is one: rows behind a stage have been made already."""
        del timestep
        if rows.frame is not None:
            rows.frame.write.format("noop").mode("overwrite").save()
        return {}

    def publish(self, staged: Staged, timestep: int) -> None:
        """Nothing to show."""

    def close(self) -> None:
        """Nothing is held."""
