"""The operators of a stream that check expectations on its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from rechannel.dataflow.graph.naming import caller
from rechannel.errors import DataflowError
from rechannel.kernels.functions.expectations import (
    Action,
    Between,
    Expect,
    Expectation,
    InSet,
    MatchesRegex,
    NotNull,
    Satisfies,
)
from rechannel.kernels.protocol.program import BatchFunction
from rechannel.model.bad_rows import AtMost

if TYPE_CHECKING:
    from rechannel.dataflow.streams.stream import Stream

Expected: TypeAlias = Expectation | Callable[[pa.RecordBatch], Any]
"""One of `rc.expectations`, or a function of a record batch that returns one boolean per row."""

_KINDS = (Between, InSet, MatchesRegex, NotNull, Satisfies)


class Expecting:
    """The operators of `Stream` that check expectations."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _batches(
            self,
            function: BatchFunction,
            schema: pa.Schema | None,
            name: str | None,
            kind: str = "map_batches",
        ) -> Stream:
            """Make a stream of what a function makes of batches."""

    def expect(
        self, *, bound: AtMost | None = None, name: str | None = None, **expectations: Expected
    ) -> Stream:
        """Count the rows that do not meet expectations; all rows stay.

            orders.expect(priced=rc.expectations.between("price", 0), paid=rc.expectations.not_null("paid"))

        The counts are in `job.status.bad_rows`, in progress, telemetry and metrics.

        Args:
            bound: the job fails if more rows do not meet them, see `rc.at_most`; None = any number may.
            name: of the node.
            expectations: name = expectation.

        Raises:
            DataflowError, UnknownColumnError: an expectation cannot be checked.
        """
        return self._expect("expect", "count", bound, name, expectations)

    def expect_or_drop(
        self, *, bound: AtMost | None = None, name: str | None = None, **expectations: Expected
    ) -> Stream:
        """Drop the rows that do not meet expectations: they are in `.dead_letters`.

        Args:
            bound, name, expectations: as for `expect`.

        Raises:
            DataflowError, UnknownColumnError: an expectation cannot be checked.
        """
        return self._expect("expect_or_drop", "drop", bound, name, expectations)

    def expect_or_fail(self, *, name: str | None = None, **expectations: Expected) -> Stream:
        """Fail the timestep, and with it the job, if a row does not meet expectations.

        Args:
            name, expectations: as for `expect`.

        Raises:
            DataflowError, UnknownColumnError: an expectation cannot be checked.
        """
        return self._expect("expect_or_fail", "fail", None, name, expectations)

    def _expect(
        self,
        called: str,
        action: Action,
        bound: AtMost | None,
        name: str | None,
        expectations: dict[str, Expected],
    ) -> Stream:
        if not expectations:
            msg = (
                f"{called} ({caller()}): name at least one expectation, as in"
                f" {called}(priced=rc.expectations.not_null('price'))"
            )
            raise DataflowError(msg)
        if bound is not None and not isinstance(bound, AtMost):
            msg = f"{called} ({caller()}): bound must be rc.at_most(...), not {bound!r}"
            raise DataflowError(msg)
        made = tuple((each, _expectation(called, each, of)) for each, of in expectations.items())
        return self._batches(
            Expect(expectations=made, action=action, bound=bound), None, name, called
        )


def _expectation(called: str, name: str, given: Expected) -> Expectation:
    if isinstance(given, _KINDS):
        return given
    if callable(given):
        return Satisfies(function=given)
    msg = f"{called} ({caller()}): {name} must be one of rc.expectations, or a function of a batch, not {given!r}"
    raise DataflowError(msg)
