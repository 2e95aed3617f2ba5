"""What changes of the configuration, reconfigurations and controllers do. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import TypeVar

from msgspec.structs import replace

from rechannel.engine.journal import acts
from rechannel.engine.journal.entries import (
    ConfigurationChanged,
    Controlling,
    Notes,
    Reconfiguring,
)
from rechannel.engine.journal.folds.acts import acted
from rechannel.engine.journal.folds.notes import all_noted
from rechannel.engine.journal.incarnations import NOTE as INCARNATIONS
from rechannel.engine.journal.incarnations import renamed_note
from rechannel.engine.journal.kept import Version
from rechannel.engine.journal.state import JournalState
from rechannel.reconfigure.events import Stepped
from rechannel.state.manifest import Edit, Manifest

V = TypeVar("V")


def changed(state: JournalState, body: ConfigurationChanged) -> JournalState:
    """Have another configuration hold from a timestep on. Raises ValueError if that timestep is intended already."""
    last = state.last_intended
    if last is not None and body.from_timestep <= last:
        msg = f"a configuration cannot change from timestep {body.from_timestep}: {last} is fixed"
        raise ValueError(msg)
    before = [(since, c) for since, c in state.configurations if since < body.from_timestep]
    state = _with_names(state, body.renamed, _nodes(state, body))
    state = _with_loaded(_without_gone(state, body), body.edits)
    state = stepped(state, body.steps)
    state = all_noted(state, Notes(bodies=body.notes))
    if (turn := acts.turn_in(body)) is not None:
        time_ms = state.driver.time_ms if state.driver else 0
        state = replace(state, notes=acted(state, turn.kind, time_ms, turn.what, body.cause))
    return replace(state, configurations=(*before, (body.from_timestep, body.configuration)))


def _nodes(state: JournalState, body: ConfigurationChanged) -> Collection[str] | None:
    """Return the names of all nodes of the program that a Configuration is for; None if the journal does not say."""
    program = {**state.notes, **body.notes}.get(acts.PROGRAM) or {}
    nodes: Collection[str] | None = program.get(str(body.configuration.dataflow), {}).get(
        "identity"
    )
    return nodes


def _with_names(
    state: JournalState, names: Mapping[str, str], nodes: Collection[str] | None
) -> JournalState:
    """Give operators and sources new names. names: by old names. nodes: names of all nodes of the new program."""
    if not names:
        return state

    def new(mapping: Mapping[str, V]) -> dict[str, V]:
        return {names.get(name, name): value for name, value in mapping.items()}

    def mark(name: str) -> str:
        """Nodes without a name of their own are called after what they read: `in.event_time-1`."""
        first, dot, rest = name.partition(".")
        after = names.get(name) or f"{names.get(first, first)}{dot}{rest}"
        return after if name in names or nodes is None or after in nodes else name

    def renamed(version: Version) -> Version:
        times = {
            name: dataclasses.replace(
                one, marks={mark(node): seen for node, seen in one.marks.items()}
            )
            for name, one in new(version.times).items()
        }
        return replace(version, manifests=new(version.manifests), times=times)

    versions = {timestep: renamed(version) for timestep, version in state.versions.items()}
    note = renamed_note(state.notes.get(INCARNATIONS), names)
    notes = state.notes if note is None else {**state.notes, INCARNATIONS: note}
    return replace(
        state,
        versions=versions,
        offsets=new(state.offsets),
        notes=notes,
        bad_rows={mark(name): pasts for name, pasts in state.bad_rows.items()},
    )


def _without_gone(state: JournalState, body: ConfigurationChanged) -> JournalState:
    """Drop the state, and the counts of bad rows, of operators that another version of the dataflow does not have."""
    known, configuration = state.configurations, body.configuration
    if state.last_committed is None or not known or known[-1][1].dataflow == configuration.dataflow:
        return state
    latest = state.versions[state.last_committed]
    kept = {n: m for n, m in latest.manifests.items() if n in configuration.operators}
    times = {n: t for n, t in latest.times.items() if n in configuration.operators}
    kept_version = replace(latest, manifests=kept, times=times)
    versions = {**state.versions, state.last_committed: kept_version}
    nodes = _nodes(state, body)
    bad_rows = {n: pasts for n, pasts in state.bad_rows.items() if nodes is None or n in nodes}
    return replace(state, versions=versions, bad_rows=bad_rows)


def _with_loaded(state: JournalState, edits: Mapping[str, Edit]) -> JournalState:
    """Give operators that are new the state that was loaded for them; before the first commit, as timestep 0."""
    if not edits:
        return state
    manifests = {n: Manifest().apply(edit) for n, edit in edits.items()}
    latest = replace(state.latest, manifests={**state.manifests, **manifests})
    timestep = state.last_committed or 0
    return replace(state, last_committed=timestep, versions={**state.versions, timestep: latest})


def reconfiguring(state: JournalState, body: Reconfiguring) -> JournalState:
    """Apply an event of a reconfiguration. Raises ValueError for a step, which comes with a configuration."""
    if isinstance(body.event, Stepped):
        msg = f"a step of {body.event.id} without a configuration"
        raise ValueError(msg)
    return replace(
        state,
        coordination=state.coordination.after(body.event),
        board=state.board.changed(body.event),
    )


def controlling(state: JournalState, body: Controlling) -> JournalState:
    """Apply events of controllers."""
    board = state.board
    for event in body.events:
        board = board.after(event)
    return replace(state, board=board)


def stepped(state: JournalState, steps: tuple[Stepped, ...]) -> JournalState:
    """Apply steps of reconfigurations."""
    for step in steps:
        state = replace(state, coordination=state.coordination.after(step))
    return state
