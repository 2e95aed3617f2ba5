"""A summary of a job, from its journal and its lease."""

from __future__ import annotations

from typing import Any

from rechannel.cli.inspect.directory import StateDirectory
from rechannel.cli.inspect.driver import Condition, Place, condition
from rechannel.engine.journal.lease import Holder, read_lease
from rechannel.engine.journal.quarantine import quarantined
from rechannel.engine.journal.reading import read_only
from rechannel.engine.journal.state import JournalState
from rechannel.model.configuration import Configuration
from rechannel.state.manifest import Manifest


def summary(directory: StateDirectory, place: Place) -> dict[str, Any]:
    """Everything that `rechannel status` shows, as JSON values.

    Raises DamagedStateError, NewerFormatError.
    """
    lease = read_lease(directory.store)  # before the journal: see `condition`
    state = read_only(directory.store)
    since, configuration = _present(state)
    return {
        "name": directory.identity.name,
        "condition": str(condition(state, lease, place)),
        "epoch": state.epoch,
        "driver": _driver(state, lease, place),
        "timestep": state.last_committed,
        "timestep_ms": None if state.last_committed is None else state.stream_ms,
        "open": [intent.timestep for intent in state.open_intents],
        "kept": sorted(state.versions),
        "configuration": _configuration(since, configuration),
        "operators": _operators(directory, state, configuration),
        "sources": _sources(state),
        "unpublished": [
            {"timestep": timestep, "sink": sink}
            for timestep, staged in sorted(state.unpublished.items())
            for sink in sorted(staged)
        ],
        "quarantine": [dict(fact) for fact in quarantined(state.notes).values()],
        "notes": dict(state.notes),
    }


def _driver(state: JournalState, lease: Holder | None, place: Place) -> dict[str, Any] | None:
    opened = state.driver
    if opened is None:
        return None
    how = condition(state, lease, place)
    alive = {Condition.RUNNING: True, Condition.SILENT: None}.get(how, False)
    return {
        "host": opened.host,
        "pid": opened.pid,
        "version": opened.version,
        "since_ms": opened.time_ms,
        "alive": alive,
        "sign_ms": None if lease is None else lease.heartbeat_ms,
    }


def _present(state: JournalState) -> tuple[int | None, Configuration | None]:
    """The configuration of the latest timestep, and the timestep since which it holds."""
    latest = state.last_intended
    held = [(s, c) for s, c in state.configurations if latest is None or s <= latest]
    return held[-1] if held else (None, None)


def _configuration(since: int | None, configuration: Configuration | None) -> dict[str, Any] | None:
    if configuration is None:
        return None
    return {
        "version": configuration.version,
        "since": since,
        "interval_ms": configuration.interval_ms,
        "in_flight": configuration.in_flight,
    }


def _operators(
    directory: StateDirectory, state: JournalState, configuration: Configuration | None
) -> dict[str, Any]:
    """Operators by name. `state` is None for operators without state."""
    configured = {} if configuration is None else dict(configuration.operators)
    names = dict.fromkeys([*configured, *directory.identity.operators])
    out: dict[str, Any] = {}
    for name in names:
        how = configured.get(name)
        routing = None if how is None else how.routing
        stateful = name in directory.identity.operators
        out[name] = {
            "tasks": None if how is None else how.tasks,
            "bins": None if routing is None else routing.bins,
            "combines": None if how is None or routing is None else how.combines,
            "state": _size(state.manifests.get(name, Manifest())) if stateful else None,
        }
    return out


def _size(manifest: Manifest) -> dict[str, int]:
    """Size of the state. Rows that a newer run hides are counted."""
    sizes = {run.segment: run.size for run in manifest.runs}
    return {
        "rows": round(sum(run.expected for run in manifest.state)),
        "bytes": sum(sizes.values()),
        "runs": len(manifest.runs),
    }


def _sources(state: JournalState) -> dict[str, Any]:
    """Where each source continues: after the latest commit, and after the timesteps in flight."""
    ends: dict[str, Any] = {name: {"committed": at} for name, at in state.offsets.items()}
    for intent in state.open_intents:
        for name, span in intent.sources.items():
            ends.setdefault(name, {"committed": None})["intended"] = span.end
    return ends
