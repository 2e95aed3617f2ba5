"""What an upgrade would do to a state directory, which is only read."""

from __future__ import annotations

import time
from functools import partial

from rechannel.assembly.seams import Seams, Start
from rechannel.dataflow.graph.nodes import Dataflow
from rechannel.engine.journal.reading import read_only
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program.identity import Identity
from rechannel.engine.program.start_entries import start_entries
from rechannel.engine.program.starting import start_program
from rechannel.engine.program.steps import first_configuration
from rechannel.engine.program.upgrade_plan import upgrade_plan
from rechannel.engine.program.versions import NOTE, Program, current_version
from rechannel.engine.reconfigure.opener import Opener
from rechannel.engine.reconfigure.rehearsal import Rehearsal, rehearse
from rechannel.reconfigure.upgrade_plan import UpgradePlan
from rechannel.settings import Settings
from rechannel.sinks.claims import Ledger


def plan_upgrade(
    seams: Seams, *, name: str, dataflow: Dataflow, settings: Settings, start: Start
) -> UpgradePlan:
    """Return what a start would do. Raises what it would raise before anything is written."""
    opener = _opener(seams, name)
    state = read_only(seams.store)
    program = program_of(seams, state, name=name, dataflow=dataflow, start=start)
    identity = Identity(name=name, operators=program.record["operators"])
    identity.check(seams.store, changed=NOTE in state.notes)
    first = first_configuration(
        program.plan,
        interval_ms=settings.interval_ms,
        in_flight=settings.in_flight,
        **opener.defaults,
    )
    start_entries(state, program, first, int(seams.clock()))
    tried = rehearse_upgrade(program, state)
    return upgrade_plan(program, state, current_version(state), tried=tried)


def program_of(
    seams: Seams, state: JournalState, *, name: str, dataflow: Dataflow, start: Start
) -> Program:
    """Return the program that a dataflow is to a state directory, which is only read. Raises what a start would."""
    opener = _opener(seams, name)
    readers = opener.readers(dataflow, {})
    try:
        resolve = partial(opener.schemas, readers=readers)
        schemas = resolve(dataflow)
        return start_program(dataflow, schemas, seams.store, state, start, resolve)
    finally:
        for reader in readers.values():
            reader.close()


def _opener(seams: Seams, name: str) -> Opener:
    return seams.opener(lambda: name, partial(Ledger, opening="", epoch=0))


def rehearse_upgrade(program: Program, state: JournalState) -> Rehearsal | None:
    """Convert stored state as the upgrade would, for at most a minute, and keep nothing of it; None without any.

    Raises UserFunctionError that names operator and file, if a row cannot be converted.
    """
    upgrade = program.upgrade
    if upgrade is None or not upgrade.converted:
        return None
    old = {new: name for name, new in upgrade.renamed.items()}
    return rehearse(
        tuple(program.programs[name] for name in sorted(upgrade.converted)),
        {upgrade.renamed.get(name, name): manifest for name, manifest in state.manifests.items()},
        lambda operator: state.latest.clock(old.get(operator, operator)),
        time.monotonic,
    )
