"""What a user's function needs in every worker process: opened when it is first needed, and kept over timesteps.

A process holds one resource per node. Calls with it never overlap, for a connection is seldom made
for that. It is closed when the node's function, or the function that opens it, has become another
one, when the function raises, and when the process ends by itself. Spark kills its Python workers:
then the system closes sockets and files, and nothing else may hang on closing.

Where a batch that fails is halved for the sake of dead letters (`kernels.dead_letters`), what opens is not opened for
every half that fails: a resource may be the reason as long as nothing has succeeded with it since, and only a single
row that fails then is tried with a new one.
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
    """A function of a resource and a record batch.

    opens: () -> resource. function: (resource, RecordBatch) -> RecordBatch or several. key: tells whether a resource
    that is there was opened for these functions. keeps: batches are parts of one that failed, see above.
    """

    opens: Callable[[], Any]
    function: Callable[[Any, pa.RecordBatch], Any]
    key: str
    keeps: bool = field(default=False, metadata={"later": True})

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch | Iterable[pa.RecordBatch]:
        """Outside of a stage: as `at` a node without a name."""
        return self.at("", batch)

    def at(self, node: str, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """What the function makes of a batch, at a node. Raises UserFunctionError if nothing can be opened."""
        slot = _slot(node)
        with slot.lock:
            if self.keeps and batch.num_rows == 1 and slot.key == self.key and not slot.sound:
                try:
                    return self._called(slot, node, batch)
                except Exception:
                    slot.close()  # it may be the resource: the row is tried once more, with another one
            elif not (self.keeps or slot.sound):
                slot.close()
            return self._called(slot, node, batch)

    def _called(self, slot: _Slot, node: str, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """What the function makes of a batch with what is open, or is opened now."""
        if slot.key != self.key:
            slot.close()
            try:
                slot.resource = self.opens()
            except Exception as error:
                told = user_error(f"opening the resource of {node!r}", error)
                told.blames_rows = False
                raise told from error
            slot.key, slot.sound = self.key, True
        done = False
        try:
            # What is made lazily is made with the resource as well.
            made = _listed(self.function(slot.resource, batch))
            done = True
        finally:
            slot.sound = done
            if not (done or self.keeps):
                # It may be the resource that is broken: another attempt opens one anew.
                slot.close()
        return made


def keeping(function: Any) -> Any:
    """A function for parts of a batch that failed: what it has open is kept for as long as it may be sound."""
    if not isinstance(function, WithResource) or function.keeps:
        return function
    return replace(function, keeps=True)


@dataclass(eq=False)
class _Slot:
    """The resource of a node in this process.

    key: None = none is open. sound: the last call with it succeeded, if there was one.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    key: str | None = None
    resource: Any = None
    sound: bool = True

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
