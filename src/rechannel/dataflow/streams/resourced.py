"""Functions that need something opened in every worker process."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

from rechannel.dataflow.graph.naming import caller
from rechannel.dataflow.identity.digests import digest_of
from rechannel.errors import DataflowError
from rechannel.kernels.functions.resources import WithResource

Opens = Callable[[], Any]
"""Makes a resource, such as a connection, in a worker process."""

_numbers = count()
_known: WeakKeyDictionary[Any, WeakKeyDictionary[Any, int]] = WeakKeyDictionary()


def with_resource(function: Callable[..., Any], opens: Opens) -> WithResource:
    """A function (resource, RecordBatch) -> rows, with what opens its resource. Raises DataflowError.

    What was opened for other functions is not theirs. Functions that hold what a digest cannot read are others unless
    they are the very same.
    """
    if not callable(opens):
        msg = f"map_batches ({caller()}): resource must be a function that opens one, not {type(opens).__name__}"
        raise DataflowError(msg)
    digest = digest_of((opens, function))
    key = digest.text if digest.complete else f"{digest.text}-{_number(opens, function)}"
    return WithResource(opens=opens, function=function, key=key)


def _number(opens: Any, function: Any) -> int:
    """A number of these two, as long as they are there."""
    try:
        return _known.setdefault(opens, WeakKeyDictionary()).setdefault(function, next(_numbers))
    except TypeError:  # they cannot be kept by
        return next(_numbers)
