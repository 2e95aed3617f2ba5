"""The program of a driver that starts: what the text means for the state that is there. See `versions`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from rechannel.dataflow.evolution.declared import DECLARED, Declared
from rechannel.dataflow.evolution.migration import Migrate, functions_of
from rechannel.dataflow.evolution.migration_json import mended_json
from rechannel.dataflow.graph.nodes import Dataflow
from rechannel.dataflow.identity.factories import Find
from rechannel.dataflow.identity.logic import dataflow_identity
from rechannel.dataflow.identity.provided import Provided, provided_by
from rechannel.engine.journal.forking import check_outputs
from rechannel.engine.journal.incarnations import operators_of
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program.assigned import ASSIGNED, assigned_again
from rechannel.engine.program.carrying import Stored
from rechannel.engine.program.declared import check_declared, with_names, with_operator_names
from rechannel.engine.program.describing import STATE
from rechannel.engine.program.dividing import check_spreads
from rechannel.engine.program.leading_back import Return, Text, leading_back
from rechannel.engine.program.resetting import Reset
from rechannel.engine.program.restarting import (
    check_age,
    check_incarnations,
    check_sinks,
    check_sources,
    check_state,
    sinks_of,
    sources_of,
)
from rechannel.engine.program.stored_versions import stored_schema_versions
from rechannel.engine.program.unread import check_unread
from rechannel.engine.program.upgrade_checks import check_owed
from rechannel.engine.program.upgrading import AT_START, Upgrade, unchanged_live, upgraded
from rechannel.engine.program.versions import (
    NOTE,
    Program,
    compile_program,
    current_version,
    text_of,
)
from rechannel.errors import OtherDataflowError, RefusedError
from rechannel.model.codec import Json
from rechannel.state.store import Store


@dataclass(frozen=True, kw_only=True)
class ProgramStart:
    """What a start means for the program: the user's permissions. See `Job.start`."""

    revert: bool = False
    """Continue with the text from before a live change."""
    mended: bool = False
    """Functions of migrations may have changed; the journal keeps their new digests."""
    fresh: Collection[str] = ()
    """Sources that are meant to begin."""
    without: Collection[str] = ()
    """Sources that are given up, sinks in quarantine whose unpublished timesteps are, operators that an upgrade
    drops."""
    upgrade: bool = False
    """Take over from another text, whose state is carried over."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """New names of operators and sources, by their old names."""
    migrate: Mapping[str, Migrate] = field(default_factory=dict)
    """What becomes of state whose columns change, by operator."""
    migrations: Sequence[Callable[..., Any]] = ()
    """Functions that the journalled migrations may name."""
    reset: Reset | None = None
    """A source that begins again at another place."""
    find: Find | None = None
    """Imports what the journal names by its path (controllers, factories of logic); None = nothing may be."""

    @property
    def declared(self) -> Declared:
        """Return what the program declares of the state before it."""
        return Declared(renamed=self.renamed, migrate=self.migrate, without=self.without)


def start_program(
    dataflow: Dataflow,
    schemas: Mapping[str, pa.Schema],
    store: Store,
    state: JournalState,
    start: ProgramStart,
    resolve: Callable[[Dataflow], Mapping[str, pa.Schema]] | None = None,
) -> Program:
    """The program of a driver that starts.

    resolve: returns the columns of all nodes where logic that was assigned stands in for that of the text; None: those
    of the text.
    Raises OldProgramError, OtherDataflowError, RefusedError.
    """
    known: Mapping[str, Json] = state.notes.get(NOTE) or {}
    current = current_version(state)
    held = known.get(str(current), {})
    functions = (*start.migrations, *functions_of(start.migrate))
    provided = provided_by(dataflow, functions, mended=start.mended)
    written, assigned = dataflow, dict[str, Json]()
    names = start.renamed if start.upgrade else {}
    if not start.revert:
        before = with_names(held, names, members=(ASSIGNED,))
        dataflow, assigned = assigned_again(dataflow, before, provided, start.find)
        if dataflow is not written and resolve is not None:
            schemas = resolve(dataflow)
    text = text_of(dataflow, schemas)
    stored = partial(stored_schema_versions, store, lambda: state)
    back = leading_back(text, known, current, stored) if start.revert else None
    _check_text(text, dataflow_identity(written), known, current, start, stored)
    check_unread(store, state, text.sources, without=start.without, renamed=names)
    upgrade = _upgrade(text, known, current, start, state, stored)
    renamed: Mapping[str, str] = {} if upgrade is None else upgrade.renamed
    held = with_names(held, renamed)
    _check_members(dataflow, state, held, start, upgrade)
    incarnations = operators_of(dataflow, state.notes, renamed)
    if back is None and upgrade is None:
        check_state(text.operators, text.lasting, held)
        check_declared(start.declared, held)
    if upgrade is None:
        check_incarnations(text.identity, known, incarnations)
    record = _continued_record(text, held, incarnations, start) | assigned
    record["migrations"] = _passages(held, back, provided, mended=start.mended)
    if back is not None:
        record = _returned(record, back, text.logics, known)
    if upgrade is not None:
        record = {**_without_declared(record), **upgrade.record}
        record.pop("back_to", None)
    version = current + (back is not None or upgrade is not None)
    made = compile_program(dataflow, schemas, store, version, record, provided)
    if state.configurations:
        held_now = state.configurations[-1][1]
        check_spreads(made.plan, with_operator_names(held_now, renamed))
    return replace(made, back=back, upgrade=upgrade)


def _check_text(
    text: Text,
    written: Mapping[str, Json],
    known: Mapping[str, Json],
    current: int,
    start: ProgramStart,
    stored: Stored,
) -> None:
    """Raise OldProgramError for the text from before a live change. written: identity of the text as it is written."""
    held = known.get(str(current), {})
    if not held or held["identity"] == text.identity or start.revert:
        return
    for identity in (text.identity, written):
        if start.upgrade and unchanged_live(identity, known, current):
            continue
        check_age(identity, known, current, why_not=lambda: _why_not(text, known, current, stored))


def _upgrade(
    text: Text,
    known: Mapping[str, Json],
    current: int,
    start: ProgramStart,
    state: JournalState,
    stored: Stored,
) -> Upgrade | None:
    """Return what the start upgrades; None if it does not."""
    if not start.upgrade or str(current) not in known:
        return None
    if start.revert:
        msg = "start(upgrade=True, revert=True): go back to the program from before, or upgrade to another one"
        raise RefusedError(msg)
    upgrade = upgraded(text, known, current, start.declared, stored, state)
    if upgrade is not None:
        check_owed(state, text.identity)
    return upgrade


def _check_members(
    dataflow: Dataflow,
    state: JournalState,
    held: Mapping[str, Json],
    start: ProgramStart,
    upgrade: Upgrade | None,
) -> None:
    """Raise RefusedError if sources or sinks came or went without permission. held: under the new names."""
    check_outputs(dataflow, state.notes)
    begun, sources = state.last_intended is not None, sources_of(dataflow)
    given_up = held.get("sources", ()) if start.revert else start.without
    new = sources.keys() - held.get("sources", {}).keys() if upgrade is not None else ()
    check_sources(sources, held, begun=begun, fresh={*start.fresh, *new}, without=given_up)
    check_sinks(sinks_of(dataflow), state, without=start.without)


def _continued_record(
    text: Text,
    held: Mapping[str, Json],
    incarnations: Mapping[str, Json],
    start: ProgramStart,
) -> dict[str, Json]:
    """Return the record of a program that continues the version `held`, without its migrations."""
    carried = {name: held[name] for name in (DECLARED, AT_START, "back_to") if name in held}
    return {
        **(carried if held else start.declared.member({}, text.state, ())),
        "text": held.get("text", "the first one"),
        "identity": text.identity,
        "incarnations": incarnations,
        "operators": text.operators,
        "lasting": text.lasting,
        "sources": text.sources,
        **({STATE: text.state} if text.state else {}),
        "logics": held.get("logics", {}),
        "eras": held.get("eras", {}),
    }


def _passages(
    held: Mapping[str, Json], back: Return | None, provided: Provided, *, mended: bool
) -> Mapping[str, Json]:
    """Return how state of earlier versions is read, by operator; with new digests if `mended`."""
    ways: Mapping[str, Json] = held.get("migrations", {}) if back is None else back.migrations
    if not mended:
        return ways
    return {name: [_mended(one, provided) for one in way] for name, way in ways.items()}


def _returned(
    record: Mapping[str, Json], back: Return, logics: Collection[str], known: Mapping[str, Json]
) -> dict[str, Json]:
    """Return the record of a program that leads back to an earlier version, of what continued the present one."""
    declared = {name: one for name, one in known[str(back.to)].items() if name == DECLARED}
    return {
        **_without_declared(record),
        **declared,
        AT_START: True,
        "text": f"back to version {back.to}",
        "logics": {n: v + (n in back.moved) for n, v in record["logics"].items() if n in logics},
        "eras": back.schema_versions,
        "back_to": back.to,
    }


def _without_declared(record: Mapping[str, Json]) -> dict[str, Json]:
    return {name: one for name, one in record.items() if name != DECLARED}


def _why_not(text: Text, known: Mapping[str, Json], current: int, stored: Stored) -> str | None:
    """Return why a text cannot take over with `revert`; None if it can."""
    try:
        if leading_back(text, known, current, stored) is None:
            check_state(text.operators, text.lasting, known[str(current)])
    except OtherDataflowError as error:
        return str(error)
    return None


def _mended(passage: Mapping[str, Json], provided: Provided) -> dict[str, Json]:
    return {**passage, "migration": mended_json(passage["migration"], provided)}
