"""Reads the history of reconfigurations over and over, as a page that is open does, and each file once.

A file is written when its reconfiguration is over, and again once all timesteps after it are known: from then on it
stays, unless the change is undone, which the journal says before the file does. So a file that is complete is kept, and
read again only if the journal has another phase. Files are listed again only if the journal has other reconfigurations.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from rechannel.engine.reconfigure.history import AROUND, listed, number_of, read_file, summary
from rechannel.errors import MissingFileError
from rechannel.reconfigure.record import OPEN, Record
from rechannel.state.store import Store

KEPT = 1_000
"""Files that are kept."""


class HistoryReader:
    """The history of one state directory. Any thread may call it."""

    def __init__(self, store: Store, kept: int = KEPT) -> None:
        """kept: how many files stay in memory."""
        self._store = store
        self._most = kept
        self._lock = threading.Lock()
        self._marks: frozenset[tuple[str, str]] | None = None
        """Ids and phases in the journal when files were listed."""
        self._files: dict[str, str] = {}
        self._kept: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def read(self, known: Iterable[Record] = (), last: int | None = None) -> list[dict[str, Any]]:
        """Return what `read_history` returns. known: as there."""
        records = {record.id: record for record in known}
        with self._lock:
            self._list(records)
            ids = sorted({*records, *self._files}, key=number_of)
            found = []
            for id_ in ids if last is None else ids[-last:]:
                with suppress(MissingFileError):  # a job that runs deletes the oldest
                    found.append(self._one(id_, records.get(id_)))
            return found

    def _list(self, records: dict[str, Record]) -> None:
        marks = frozenset((id_, str(record.phase)) for id_, record in records.items())
        over = {id_ for id_, record in records.items() if not record.open}
        if marks != self._marks or not over <= self._files.keys():
            self._files, self._marks = listed(self._store), marks

    def _one(self, id_: str, record: Record | None) -> dict[str, Any]:
        if id_ not in self._files:
            if record is None:
                raise MissingFileError(id_)
            return summary(record)
        kept = self._kept.get(id_)
        if kept is not None and (record is None or str(record.phase) == kept["phase"]):
            return kept
        body = read_file(self._store, self._files[id_])
        if _complete(body):
            self._kept[id_] = body
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return body


def _complete(body: dict[str, Any]) -> bool:
    """Whether nothing is added to a file: the reconfiguration is over, and so are the timesteps after it."""
    after = body["latency_ms"].get("after", {}).get("timesteps", 0)
    return body["phase"] not in OPEN and (body["last_timestep"] is None or after >= AROUND)
