"""What a replay needs of a journal: the state that it begins with, and what was decided and committed. Pure.

The rules:

- A replay of timesteps a to b begins with the state of a - 1. The version of a - 1 must be kept, and so must those of
  a to b, whose output and state are compared. The first timestep of a journal begins with no state.
- A timestep is replayed as its latest intent says: sources, splits, time, Configuration. So the entries of the journal
  must reach back to the intent of a.
- All timesteps belong to one version of the program, of which the journal has the whole record.

Whatever is not kept is refused, with the oldest timestep that is possible and the setting that keeps more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rechannel.engine.journal.entries import ConfigurationChanged, Entry, Intent, Withdrawn
from rechannel.engine.journal.incarnations import SOURCES, incarnation
from rechannel.engine.journal.kept import Version
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program.versions import NOTE
from rechannel.errors import NotReadyError, RefusedError
from rechannel.model.codec import Json
from rechannel.model.configuration import Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Some committed timesteps, as the journal has them."""

    start: Version
    """State that the first one begins with."""
    intents: tuple[Intent, ...]
    """In order, at least one."""
    configurations: tuple[Configuration, ...]
    """Of each."""
    committed: Mapping[int, Version]
    """By timestep."""
    program: int
    """Version of the program."""
    record: Mapping[str, Json]
    """What the journal keeps of it."""
    source_ids: Mapping[str, str]
    """Incarnation of each source at present, by name."""

    @property
    def started(self) -> tuple[int, ...]:
        """The timestep whose version it begins with; empty if it begins with no state."""
        return (self.first - 1,) if self.start.manifests else ()

    @property
    def first(self) -> int:
        """The first timestep."""
        return self.intents[0].timestep

    @property
    def last(self) -> int:
        """The last timestep."""
        return self.intents[-1].timestep


def asked_for(timesteps: object) -> range:
    """Return the timesteps that a user asks for: a range, or one number. Raises RefusedError for anything else."""
    if isinstance(timesteps, range):
        return timesteps
    if isinstance(timesteps, int) and not isinstance(timesteps, bool):
        return range(timesteps, timesteps + 1)
    msg = (
        f"timesteps={timesteps!r}: give a range, such as range(5, 8), or the number of one timestep"
    )
    raise RefusedError(msg)


def select(state: JournalState, entries: Sequence[Entry], asked: range) -> Selection:
    """Return what a replay of some timesteps needs.

    entries: those that the journal still has, ascending; later ones than `state` may be among them. asked: timesteps
    without gaps. Raises RefusedError for timesteps that cannot be replayed any more, NotReadyError for those that are
    not committed yet.
    """
    entries = [entry for entry in entries if entry.number <= state.number]
    _check_asked(state, asked)
    intents = _intents(entries)
    begins = _begins(entries)
    why = _lost(state, intents, begins, asked)
    if why is not None:
        reason, setting = why
        raise _refused(asked[0], reason, setting, _oldest(state, intents, begins))
    start = Version() if asked[0] == begins else state.versions[asked[0] - 1]
    configurations = tuple(_configuration(state, intents[timestep]) for timestep in asked)
    program = _one_program(asked, configurations)
    return Selection(
        start=start,
        intents=tuple(intents[timestep] for timestep in asked),
        configurations=configurations,
        committed={timestep: state.versions[timestep] for timestep in asked},
        program=program,
        record=_record(state, program),
        source_ids={
            name: incarnation(state.notes, SOURCES, name)
            for timestep in asked
            for name in intents[timestep].sources
        },
    )


def _check_asked(state: JournalState, asked: range) -> None:
    if asked.step != 1 or not asked or asked[0] < 1:
        msg = f"a replay is of timesteps without gaps from 1 on, such as range(5, 8), not {asked}"
        raise RefusedError(msg)
    last = state.last_committed
    if last is None or asked[-1] > last:
        there = "none is committed yet" if last is None else f"the last committed one is {last}"
        msg = f"timestep {asked[-1]} cannot be replayed: {there}"
        raise NotReadyError(msg)


def _lost(
    state: JournalState, intents: Mapping[int, Intent], begins: int | None, asked: range
) -> tuple[str, str] | None:
    """Return why timesteps cannot be replayed any more, and the setting that keeps more; None if they can."""
    first = asked[0]
    if first not in state.versions or (first != begins and first - 1 not in state.versions):
        needs = (
            "its output is compared" if first == begins else f"it begins with that of {first - 1}"
        )
        kept = ", ".join(map(str, sorted(state.versions)))
        return f"{needs}, and state and output are kept of timesteps {kept}", "keep_versions"
    gone = [timestep for timestep in asked if timestep not in intents]
    if gone:
        return (
            f"the journal has no entry any more of what timestep {gone[0]} read",
            "snapshot_every",
        )
    return None


def _oldest(state: JournalState, intents: Mapping[int, Intent], begins: int | None) -> int | None:
    """Return the oldest timestep from which all can be replayed; None if there is none."""
    found = None
    for timestep in sorted(state.versions, reverse=True):
        if _lost(state, intents, begins, range(timestep, timestep + 1)) is not None:
            break
        found = timestep
    return found


def _begins(entries: Sequence[Entry]) -> int | None:
    """Return the first timestep of the journal, if it began with no state; None if that is not known."""
    if not entries or entries[0].number != 1:
        return None
    for body in (entry.body for entry in entries):
        if isinstance(body, ConfigurationChanged) and body.edits:
            return None
        if isinstance(body, Intent):
            return body.timestep or None  # 0 is the load of initial state
    return None


def _refused(first: int, why: str, setting: str, oldest: int | None) -> RefusedError:
    possible = (
        "no committed timestep can be replayed"
        if oldest is None
        else f"the oldest timestep that can be replayed is {oldest}"
    )
    return RefusedError(
        f"timestep {first} cannot be replayed: {why}. Now {possible}; a larger Settings({setting}=...) keeps more"
        " from the next start on"
    )


def _intents(entries: Sequence[Entry]) -> dict[int, Intent]:
    """Return the latest intent of each timestep."""
    found: dict[int, Intent] = {}
    for entry in entries:
        body = entry.body
        if isinstance(body, Intent):
            found[body.timestep] = body
        elif isinstance(body, Withdrawn):
            found = {t: intent for t, intent in found.items() if t < body.from_timestep}
    return found


def _configuration(state: JournalState, intent: Intent) -> Configuration:
    """Return the Configuration of a timestep; kept versions have theirs in the journal's state."""
    held = intent.configuration or state.configuration_at(intent.timestep)
    if held.version != intent.configuration_version:
        msg = (
            f"timestep {intent.timestep} cannot be replayed: it ran under Configuration"
            f" {intent.configuration_version}, and the journal now has {held.version} for it"
        )
        raise RefusedError(msg)
    return held


def _one_program(asked: range, configurations: Sequence[Configuration]) -> int:
    programs = [configuration.dataflow for configuration in configurations]
    for timestep, before, after in zip(asked[1:], programs, programs[1:], strict=False):
        if before != after:
            msg = (
                f"timesteps {asked[0]} to {asked[-1]} cannot be replayed together: version {after} of the dataflow"
                f" took over from version {before} at timestep {timestep}. Replay {_span(asked[0], timestep - 1)} and"
                f" {_span(timestep, asked[-1])} on their own, each with the program of its version"
            )
            raise RefusedError(msg)
    return programs[0]


def _span(first: int, last: int) -> str:
    return f"range({first}, {last + 1})"


def _record(state: JournalState, program: int) -> Mapping[str, Json]:
    record: Mapping[str, Json] = (state.notes.get(NOTE) or {}).get(str(program), {})
    if "operators" not in record:
        msg = (
            f"the timesteps ran under version {program} of the dataflow, of which the journal has no complete record"
            " any more: it keeps those of the present version and of the one before"
        )
        raise RefusedError(msg)
    return record
