"""The history of reconfigurations: one file each, with cause, phases, and latency before, during and after."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from rechannel.engine.reconfigure.latencies import Latencies
from rechannel.engine.reconfigure.measured import Measured
from rechannel.errors import DamagedStateError, MissingFileError, NotReadyError
from rechannel.reconfigure.record import Phase, Record
from rechannel.state.keys import RECONFIGURATIONS
from rechannel.state.sealed import seal, unseal
from rechannel.state.store import Store

FORMAT = 1
"""Version of the format of a history file."""

AROUND = 32
"""Timesteps before and after a reconfiguration that its latencies are compared with."""

KEPT = 10_000
"""Number of reconfigurations whose files are kept; when another one is over, the oldest file is deleted."""


def summary(record: Record, latencies: Latencies | None = None) -> dict[str, Any]:
    """A reconfiguration for people, as plain JSON values. latencies: those that were measured."""
    return {
        "id": record.id,
        "change": str(record.change),
        "strategy": str(record.strategy),
        "cause": record.cause,
        "phase": str(record.phase),
        "reason": record.reason,
        "steps": {"made": len(record.taken), "left": len(record.left)},
        "bins": sum(taken.bins for taken in record.taken),
        "bytes": round(sum(taken.size for taken in record.taken)),
        "first_timestep": record.taken[0].timestep if record.taken else None,
        "last_timestep": record.last_timestep,
        "phases_ms": phases(record),
        "times": dict(record.times),
        "prepared": dict(record.prepared),
        "drivers": record.drivers,
        "latency_ms": _latencies(record, latencies or Latencies()),
    }


def phases(record: Record) -> dict[str, int | None]:
    """How long Trisk's phases took, ms.

    prepare: from the request until the preparation was done. synchronize: from then until the timestep boundary of the
    first step. update: from there until the timestep of the last step was committed.
    """
    times = dict(record.times)
    asked, ready = times.get("waiting"), times.get("ready")
    moving = record.taken[0].time_ms if record.taken else None
    over = next((times[p] for p in ("done", "undone", "superseded") if p in times), None)
    return {
        "prepare": _between(asked, ready),
        "synchronize": _between(ready if ready is not None else asked, moving),
        "update": _between(moving, over),
    }


def _between(first: int | None, last: int | None) -> int | None:
    return None if first is None or last is None else max(0, last - first)


def _latencies(record: Record, latencies: Latencies) -> dict[str, dict[str, float]]:
    if not record.taken:
        return {}
    first, last = record.taken[0].timestep, record.taken[-1].timestep
    parts = {
        "before": latencies.between(first - AROUND, first - 1),
        "during": latencies.between(first, last),
        "after": latencies.between(last + 1, last + AROUND),
    }
    return {name: _figures(values) for name, values in parts.items() if len(values)}


def _figures(values: npt.NDArray[np.float64]) -> dict[str, float]:
    p50, p99 = np.percentile(values, [50, 99])
    return {
        "p50": round(float(p50), 3),
        "p99": round(float(p99), 3),
        "max": round(float(values.max()), 3),
        "timesteps": len(values),
    }


class History:
    """Writes the files; belongs to the driver's thread."""

    def __init__(self, store: Store, measured: Measured, kept: int = KEPT) -> None:
        """store: keeps the files, the newest `kept` of them. measured: has the latencies."""
        self._store = store
        self._measured = measured
        self._kept = kept
        self._fresh: dict[str, Record] = {}

    def over(self, record: Record) -> None:
        """Write the file of a reconfiguration that is over; latencies after it are added later."""
        self._write(record)
        self._fresh[record.id] = record
        oldest = number_of(record.id) - self._kept
        if oldest > 0:
            self._fresh.pop(f"r{oldest}", None)
            self._store.delete(record_key(f"r{oldest}"))

    def repair(self, records: Iterable[Record]) -> None:
        """Write files that a driver left out because it died, and update those of changes undone since."""
        there = set(self._store.list(RECONFIGURATIONS))
        for record in records:
            if not record.open and record_key(record.id) not in there:
                self._write(record)
            elif {Phase.DONE, Phase.UNDONE} <= record.times.keys():
                self._mark_undone(record)

    def _mark_undone(self, record: Record) -> None:
        """Mark a change that was done as undone; the latencies in its file stay."""
        body = read_file(self._store, record_key(record.id))
        if body["phase"] != record.phase:
            now = summary(record)
            body |= {name: now[name] for name in ("phase", "reason", "times")}
            self._store.put(record_key(record.id), seal({"format": FORMAT, **body}))

    def committed(self, timestep: int) -> None:
        """Write again the files for which all timesteps after the change are known now."""
        for record in list(self._fresh.values()):
            last = record.last_timestep
            if last is None or timestep >= last + AROUND:
                del self._fresh[record.id]
                self._write(record)

    def finish(self) -> None:
        """Write what is known, because the driver ends."""
        for record in self._fresh.values():
            self._write(record)
        self._fresh.clear()

    def _write(self, record: Record) -> None:
        self._store.put(record_key(record.id), record_file(record, self._measured.latencies))


def record_file(record: Record, latencies: Latencies | None = None) -> bytes:
    """The sealed file of a reconfiguration that is over."""
    return seal({"format": FORMAT, **summary(record, latencies)})


def record_key(id_: str) -> str:
    """Key of the file of a reconfiguration."""
    return f"{RECONFIGURATIONS}{id_}.json"


def damaged_records(store: Store) -> dict[str, str]:
    """Files of reconfigurations that do not hold what was written, and their problems. Raises NewerFormatError."""
    found: dict[str, str] = {}
    for key in store.list(RECONFIGURATIONS):
        try:
            check_record(store, key)
        except MissingFileError:
            continue  # a job that runs deletes the oldest
        except DamagedStateError as error:
            found[key] = str(error)
    return found


def check_record(store: Store, key: str) -> None:
    """Read the file of a reconfiguration. Raises DamagedStateError, NewerFormatError."""
    number_of(_id(key))
    record = read_file(store, key)
    if record.get("id") != _id(key):
        msg = f"{key} holds the record of {record.get('id')}: it was written under another name"
        raise DamagedStateError(msg)


def _id(key: str) -> str:
    return key.removeprefix(RECONFIGURATIONS).removesuffix(".json")


def read_history(
    store: Store, known: Iterable[Record] = (), last: int | None = None
) -> list[dict[str, Any]]:
    """All reconfigurations, or the `last` ones, in the order of their requests.

    known: the records in the journal, read before this; those that are open or have just ended have no file yet.
    Raises DamagedStateError.
    """
    records = {record.id: record for record in known}
    files = listed(store)
    ids = sorted({*records, *files}, key=number_of)
    entries = []
    for id_ in ids if last is None else ids[-last:]:
        with suppress(MissingFileError):  # a job that runs deletes the oldest
            entries.append(read_file(store, files[id_]) if id_ in files else summary(records[id_]))
    return entries


def listed(store: Store) -> dict[str, str]:
    """Return the keys of all files, by the id of the reconfiguration."""
    return {_id(key): key for key in store.list(RECONFIGURATIONS)}


def read_one(store: Store, id_: str, known: Iterable[Record] = ()) -> dict[str, Any]:
    """One reconfiguration, as in `read_history`. Raises NotReadyError if there is none, DamagedStateError."""
    if _is_id(id_):  # and not the path of another file
        with suppress(MissingFileError):
            return read_file(store, record_key(id_))
    for record in known:
        if record.id == id_:
            return summary(record)
    msg = f"there is no reconfiguration {id_!r}"
    raise NotReadyError(msg)


def read_file(store: Store, key: str) -> dict[str, Any]:
    """Return the reconfiguration that a file has. Raises DamagedStateError, MissingFileError."""
    body: dict[str, Any] = unseal(store.read(key), name=key, newest=FORMAT)
    body.pop("format", None)
    return body


def _is_id(text: str) -> bool:
    return text.startswith("r") and text[1:].isdigit()


def number_of(id_: str) -> int:
    """The number in a reconfiguration's id. Raises DamagedStateError if it is not an id."""
    if not _is_id(id_):
        msg = f"{json.dumps(id_)} is not the id of a reconfiguration"
        raise DamagedStateError(msg)
    return int(id_[1:])
