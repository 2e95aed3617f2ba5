"""Resources of user functions, such as connections: opened in each worker process on first use and kept over timesteps.

A process holds one resource per node. Calls with it never overlap, since few connections allow that. It is closed when
the node's function or the function that opens it is replaced, when the function raises, and when the process exits by
itself. Spark kills its Python workers: then the system closes sockets and files, so nothing else may depend on closing.

When a failing batch is halved to find dead letters (`functions.dead_letters`), the resource is not reopened for every
half that fails. It may be at fault only as long as no call has succeeded with it, and then a single row that fails is
tried once with a new one.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from rechannel.kernels.functions.user_errors import user_error


@dataclass(frozen=True, eq=False, kw_only=True)
class WithResource:
    """A function of a resource and a record batch."""

    opens: Callable[[], Any]
    """() -> resource."""
    function: Callable[[Any, pa.RecordBatch], Any]
    """(resource, RecordBatch) -> RecordBatch, or several."""
    key: str
    """Identifies the two functions: an open resource with another key is reopened."""
    keeps: bool = field(default=False, metadata={"later": True})
    """Whether batches are parts of one that failed (see the top of this file)."""

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch | Iterable[pa.RecordBatch]:
        """Call `at` with an empty node name: for use outside of a stage."""
        return self.at("", batch)

    def at(self, node: str, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Call the function with a batch at a node. Raises UserFunctionError if the resource cannot be opened."""
        slot = _slot(node)
        with slot.lock:
            if self.keeps and batch.num_rows == 1 and slot.key == self.key and not slot.sound:
                try:
                    return self._called(slot, node, batch)
                except Exception:
                    slot.close()  # the resource may be at fault: the row is tried once more with a new one
            elif not (self.keeps or slot.sound):
                slot.close()
            return self._called(slot, node, batch)

    def _called(self, slot: _Slot, node: str, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Call the function with the open resource; open one if needed."""
        if slot.key != self.key:
            slot.close()
            try:
                slot.resource = self.opens()
            except Exception as error:
                wrapped = user_error(f"opening the resource of {node!r}", error)
                wrapped.blames_rows = False
                raise wrapped from error
            slot.key, slot.sound = self.key, True
        done = False
        try:
            # A lazy result is computed while the resource is held.
            made = _listed(self.function(slot.resource, batch))
            done = True
        finally:
            slot.sound = done
            if not (done or self.keeps):
                # The resource may be broken: the next attempt opens a new one.
                slot.close()
        return made


def keeping(function: Any) -> Any:
    """Return a copy that keeps its resource open after a failure, for the parts of a batch that failed."""
    if not isinstance(function, WithResource) or function.keeps:
        return function
    return replace(function, keeps=True)


@dataclass(eq=False)
class _Slot:
    """The resource of a node in this process."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    key: str | None = None
    """Key of the open resource; None if none is open."""
    resource: Any = None
    sound: bool = True
    """Whether the last call with it succeeded, or there was none."""

    def close(self) -> None:
        """Close the resource. An error while closing is ignored."""
        resource, self.key, self.resource = self.resource, None, None
        close = getattr(resource, "close", None)
        if callable(close):
            with contextlib.suppress(Exception):
                close()


_slots: dict[tuple[int, str], _Slot] = {}
_guard = threading.Lock()


def _slot(node: str) -> _Slot:
    with _guard:
        # A forked process does not own its parent's resources.
        return _slots.setdefault((os.getpid(), node), _Slot())


@atexit.register
def close_all() -> None:
    """Close all resources of this process."""
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
