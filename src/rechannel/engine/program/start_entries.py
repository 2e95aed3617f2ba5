"""What a driver that starts journals about its program before any of it runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rechannel.engine.journal import incarnations
from rechannel.engine.journal.entries import Body, Notes
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program.declared import with_operator_names
from rechannel.engine.program.leading_back import begun, undone
from rechannel.engine.program.upgrading import ended
from rechannel.engine.program.versions import NOTE, Program, current_record, noted
from rechannel.model.codec import Json
from rechannel.model.configuration import Configuration
from rechannel.state.manifest import Edit


def start_entries(
    state: JournalState,
    program: Program,
    first: Configuration,
    wall_ms: int,
    loaded: Mapping[str, Edit] | None = None,
) -> list[Body]:
    """Return the journal entries for a program that starts; everything that must hold together is in one entry.

    first: the Configuration that its settings imply. loaded: state that new operators of an upgrade begin with. Raises
    RefusedError.
    """
    upgrade = program.upgrade
    renamed = {} if upgrade is None else upgrade.renamed
    note = note_of(state, program)
    counted = incarnations.note_of(state, program.dataflow, renamed)
    notes = {NOTE: note, incarnations.NOTE: counted}
    notes = {kind: body for kind, body in notes.items() if body is not None}
    version = program.version
    returned = program.record if upgrade is None else current_record(state)
    after = undone(state, returned, version, wall_ms)
    if program.back is None and upgrade is None:
        return [*([Notes(bodies=notes)] if notes else []), *after]
    held = reconciled(_present(state, renamed, first), first)
    cause = f"led back by version {version} of the dataflow" if upgrade is None else upgrade.cause
    logics = program.record["logics"]
    begins = begun(state, version, held, logics, notes, cause=cause, renamed=renamed, edits=loaded)
    before = [] if upgrade is None else ended(state, upgrade, wall_ms)
    return [*before, begins, *after]


def _present(
    state: JournalState, renamed: Mapping[str, str], first: Configuration
) -> Configuration:
    """Return the Configuration that holds now, under new names; `first` if nothing was ever planned."""
    if not state.configurations:
        return first
    return with_operator_names(state.configuration_at((state.last_intended or 0) + 1), renamed)


def note_of(state: JournalState, program: Program) -> dict[str, Json] | None:
    """Return the note that adds or updates a version; None if the journal has it already."""
    known: Mapping[str, Json] = state.notes.get(NOTE) or {}
    if known.get(str(program.version)) == program.record:
        return None
    return noted(known, program.version, program.record)


def reconciled(configuration: Configuration, fresh: Configuration) -> Configuration:
    """Return a journalled Configuration adapted to a program text with other stages.

    New stages start as in `fresh`; stages that are gone are left out.
    """
    if fresh.operators.keys() == configuration.operators.keys():
        return configuration
    operators = {n: configuration.operators.get(n, new) for n, new in fresh.operators.items()}
    return replace(configuration, version=configuration.version + 1, operators=operators)
