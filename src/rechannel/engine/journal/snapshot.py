"""A journal state as one sealed file, so that a restart need not read the journal from entry 1.

Versions share most of their runs. Every run is written once, in `runs`, and versions name runs by
their place there; reading restores the sharing.
"""

from __future__ import annotations

from collections.abc import Mapping

from rechannel.engine.journal.entries import Intent, Json, Opened, times_from_json, times_to_json
from rechannel.engine.journal.state import JournalState, Version
from rechannel.errors import DamagedStateError
from rechannel.model.configuration import Configuration
from rechannel.reconfigure.coordination import Coordination
from rechannel.state.manifest import Manifest, Run
from rechannel.state.sealed import seal, unseal

FORMAT = 2
"""Version of the format of snapshots; readers refuse later ones, and read earlier ones."""


def to_bytes(state: JournalState) -> bytes:
    """The sealed file of a state."""
    places: dict[Run, int] = {}
    versions = [
        [timestep, _version_to_json(version, places)]
        for timestep, version in state.versions.items()
    ]
    return seal(
        {
            "format": FORMAT,
            "number": state.number,
            "epoch": state.epoch,
            "driver": state.driver.to_json() if state.driver else None,
            "closed": state.closed,
            "last_committed": state.last_committed,
            "runs": [run.to_json() for run in places],
            "versions": versions,
            "offsets": dict(state.offsets),
            "open_intents": [intent.to_json() for intent in state.open_intents],
            "attempts": state.attempts,
            "configurations": [[since, c.to_json()] for since, c in state.configurations],
            "unpublished": [[t, dict(staged)] for t, staged in state.unpublished.items()],
            "notes": dict(state.notes),
            "keep_versions": state.keep_versions,
            "coordination": state.coordination.to_json(),
            "openings": list(state.openings),
            "digests": [[timestep, digest] for timestep, digest in state.digests.items()],
        }
    )


def from_bytes(data: bytes | memoryview, *, name: str) -> JournalState:
    """Invert `to_bytes`. name: what to call the file in messages.

    Raises DamagedStateError, NewerFormatError.
    """
    record = unseal(data, name=name, newest=FORMAT)
    try:
        return _state_from_json(record)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        msg = f"{name} is intact but makes no sense ({error!r}); restore it from a copy"
        raise DamagedStateError(msg) from error


def _state_from_json(record: Mapping[str, Json]) -> JournalState:
    runs = [Run.from_json(run) for run in record["runs"]]
    return JournalState(
        number=record["number"],
        epoch=record["epoch"],
        driver=Opened.from_json(record["driver"]) if record["driver"] else None,
        closed=record["closed"],
        last_committed=record["last_committed"],
        versions={t: _version_from_json(version, runs) for t, version in record["versions"]},
        offsets=record["offsets"],
        open_intents=tuple(Intent.from_json(intent) for intent in record["open_intents"]),
        attempts=record.get("attempts", 0),
        configurations=tuple(
            (since, Configuration.from_json(c)) for since, c in record["configurations"]
        ),
        unpublished=dict(record["unpublished"]),
        notes=record["notes"],
        keep_versions=record["keep_versions"],
        coordination=Coordination.from_json(record["coordination"])
        if "coordination" in record
        else Coordination(),
        digests=_digests(record),
        openings=tuple(record.get("openings", ())),
    )


def _digests(record: Mapping[str, Json]) -> dict[int, str]:
    """Snapshots of before have none, and their openings no ids."""
    if "digests" in record:
        return dict(record["digests"])
    intents = (Intent.from_json(intent) for intent in record["open_intents"])
    return {intent.timestep: intent.digest("") for intent in intents}


def _version_to_json(version: Version, places: dict[Run, int]) -> dict[str, Json]:
    return {
        "manifests": {
            operator: [places.setdefault(run, len(places)) for run in manifest.runs]
            for operator, manifest in version.manifests.items()
        },
        "outbox": {operator: list(keys) for operator, keys in version.outbox.items()},
        "now_ms": version.now_ms,
        **times_to_json(version.times),
    }


def _version_from_json(data: Mapping[str, Json], runs: list[Run]) -> Version:
    return Version(
        manifests={
            operator: Manifest(tuple(runs[place] for place in places))
            for operator, places in data["manifests"].items()
        },
        outbox={operator: tuple(keys) for operator, keys in data["outbox"].items()},
        now_ms=data["now_ms"],
        times=times_from_json(data),
    )
