"""What a user's function needs in every worker process: opened when it is first needed, and kept over timesteps.

A process holds one resource per node. Calls with it never overlap, for a connection is seldom made
for that. It is closed when the node's function, or the function that opens it, has become another
one, when the function raises, and when the process ends by itself. Spark kills its Python workers:
then the system closes sockets and files, and nothing else may hang on closing.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rechannel.kernels.user_errors import user_error


@dataclass(frozen=True, eq=False, kw_only=True)
class WithResource:
    """A function of a resource and a record batch.

    opens: () -> resource. function: (resource, RecordBatch) -> RecordBatch or several. key: tells whether a resource
    that is there was opened for these functions.
    """

    opens: Callable[[], Any]
    function: Callable[[Any, pa.RecordBatch], Any]
    key: str

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch | Iterable[pa.RecordBatch]:
        """Outside of a stage: as `at` a node without a name."""
        return self.at("", batch)

    def at(self, node: str, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """What the function makes of a batch, at a node. Raises UserFunctionError if nothing can be opened."""
        slot = _slot(node)
        with slot.lock:
            if slot.key != self.key:
                slot.close()
                try:
                    slot.resource = self.opens()
                except Exception as error:
                    told = user_error(f"opening the resource of {node!r}", error)
                    told.blames_rows = False
                    raise told from error
                slot.key = self.key
            try:
                # What is made lazily is made with the resource as well.
                return _listed(self.function(slot.resource, batch))
            except BaseException:
                # It may be the resource that is broken: another attempt opens one anew.
                slot.close()
                raise


@dataclass(eq=False)
class _Slot:
    """The resource of a node in this process. key: None = none is open."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    key: str | None = None
    resource: Any = None

    def close(self) -> None:
        """Close what is open; a resource that cannot be closed is let go."""
        resource, self.key, self.resource = self.resource, None, None
        close = getattr(resource, "close", None)
        if callable(close):
            with contextlib.suppress(Exception):
                close()


_slots: dict[tuple[int, str], _Slot] = {}
_guard = threading.Lock()


def _slot(node: str) -> _Slot:
    with _guard:
        # A forked process does not own what its parent has open.
        return _slots.setdefault((os.getpid(), node), _Slot())


@atexit.register
def close_all() -> None:
    """Close everything that this process has open."""
    with _guard:
        mine = [key for key in _slots if key[0] == os.getpid()]
        slots = [_slots.pop(key) for key in mine]
    for slot in slots:
        with slot.lock:
            slot.close()


def _listed(made: Any) -> list[pa.RecordBatch]:
    if isinstance(made, pa.RecordBatch):
        return [made]
    return list(made.to_batches()) if isinstance(made, pa.Table) else list(made)
