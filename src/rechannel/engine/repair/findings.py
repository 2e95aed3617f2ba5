"""What is wrong with a state directory, what follows from it, and what can be done. Pure: from evidence to findings.

Each kind of finding is one function in `KINDS`. None of them guesses: an action is offered, with its cost, only if its
outcome is certain. If only a copy of the directory helps, no action is offered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from rechannel.engine.journal.entries import Body, Note, Published, Withdrawn
from rechannel.engine.journal.folds.timesteps import WITHDRAWN
from rechannel.engine.journal.incarnations import NOTE, SINKS, incarnation
from rechannel.engine.journal.quarantine import NOTE as QUARANTINE
from rechannel.engine.journal.quarantine import owed, quarantined, released
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program import early
from rechannel.engine.reconfigure.history import record_file, record_key
from rechannel.engine.repair.evidence import Evidence
from rechannel.state.keys import HEAD, JOURNAL, LEASE, SNAPSHOTS, number_of

GIVEN_UP = "given up by rechannel repair"
COPY = "Restore the directory from a copy; nothing else brings it back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What can be done about a finding."""

    words: str
    """The action in words."""
    bodies: tuple[Body, ...] = ()
    """Entries for the journal, which a driver writes that does nothing else."""
    delete: tuple[str, ...] = ()
    """Keys of files to delete."""
    put: Mapping[str, bytes] = field(default_factory=dict)
    """Files to write, by key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong."""

    id: str
    """Name for the command line."""
    what: str
    """The finding in one sentence."""
    consequence: str
    """What follows if nothing is done."""
    action: Action | None = None
    """None = nothing can be done here."""
    advised: bool = True
    """Whether the action is right whatever the cause; otherwise the user has to decide."""


Kind: TypeAlias = Callable[[Evidence], Iterator[Finding]]


def open_timesteps(seen: Evidence) -> Iterator[Finding]:
    """Find timesteps whose drivers ended after the intent and before the commit."""
    state = seen.state
    if state is None or not state.open_intents or seen.held:
        return
    first, last = state.open_intents[0].timestep, state.open_intents[-1].timestep
    shown = early.warning(state)
    many = "once" if state.attempts <= 1 else f"{state.attempts} times"
    yield Finding(
        id="open-timesteps",
        what=f"{_range('timestep', first, last)} {'was' if first == last else 'were'} planned and not committed;"
        f" the first was begun {many}",
        consequence="the next driver runs them again exactly as they were planned",
        action=Action(
            words="withdraw them: the next driver plans these numbers anew, in the bounds of its program"
            + (f". But {shown}" if shown else ""),
            bodies=(Withdrawn(from_timestep=first, reason="asked for by rechannel repair"),),
        ),
        advised=state.attempts > 1 and not shown,
    )


def sinks_that_are_gone(seen: Evidence) -> Iterator[Finding]:
    """Find timesteps that wait for sinks which the program no longer has."""
    state = seen.state
    if state is None or seen.held or NOTE not in state.notes:
        return
    left: dict[str, list[int]] = {}
    for timestep, sinks in state.unpublished.items():
        for name, what in sinks.items():
            if _is_gone(state, name, what):
                left.setdefault(name, []).append(timestep)
    for name, timesteps in sorted(left.items()):
        which = _range("timestep", min(timesteps), max(timesteps))
        bodies = tuple(
            Published(
                timestep=timestep,
                sink=name,
                incarnation=_owner(state, name, timestep),
                dropped=f"{GIVEN_UP}: the sink is gone",
            )
            for timestep in sorted(timesteps)
        )
        yield Finding(
            id=f"unpublished-{name}",
            what=f"{which} ({len(timesteps)} in all) wait to be published by sink {name!r}, which is gone",
            consequence="no sink shows these rows, and the files that hold them stay",
            action=Action(words="give them up: their rows are not shown", bodies=bodies),
            advised=False,
        )


def _is_gone(state: JournalState, name: str, what: object) -> bool:
    present = incarnation(state.notes, SINKS, name)
    owner = what.get("incarnation", "") if isinstance(what, Mapping) else ""
    return not present or bool(owner and owner != present)


def _owner(state: JournalState, name: str, timestep: int) -> str:
    what = state.unpublished[timestep][name]
    return str(what.get("incarnation", "")) if isinstance(what, Mapping) else ""


def quarantine(seen: Evidence) -> Iterator[Finding]:
    """Find sinks in quarantine."""
    state = seen.state
    if state is None or seen.held:
        return
    for who, fact in quarantined(state.notes).items():
        yield Finding(
            id=f"quarantine-{fact['sink']}",
            what=f"sink {fact['sink']!r} is in quarantine since timestep {fact['timestep']}: {fact['reason']}",
            consequence=f"it owes {len(owed(state, fact['sink'], who))} timesteps and all later ones; their files stay",
            action=Action(
                words="release it: the next driver publishes what it owes, in order, and tries as often as before",
                bodies=(Note(kind=QUARANTINE, body=released(state.notes, who)),),
            ),
            advised=False,
        )


def owing_sinks(seen: Evidence) -> Iterator[Finding]:
    """Find timesteps that wait for sinks of the program."""
    state = seen.state
    if state is None or seen.held:
        return
    names = sorted({name for sinks in state.unpublished.values() for name in sinks})
    for name in names:
        who = incarnation(state.notes, SINKS, name)
        left = owed(state, name, who) if who else {}
        if left:
            yield Finding(
                id=f"owed-{name}",
                what=f"{_range('timestep', min(left), max(left))} ({len(left)} in all) wait to be published by"
                f" sink {name!r}",
                consequence="the next driver publishes them, unless the sink is in quarantine",
                action=Action(
                    words="give them up: their rows are never shown",
                    bodies=tuple(
                        Published(timestep=t, sink=name, incarnation=who, dropped=GIVEN_UP)
                        for t in left
                    ),
                ),
                advised=False,
            )


def history(seen: Evidence) -> Iterator[Finding]:
    """Find files of reconfigurations that are damaged or were never written."""
    over = {}
    if seen.state is not None:
        records = seen.state.coordination.records
        over = {record_key(r.id): record_file(r) for r in records if not r.open}
    for key, problem in seen.damaged.items():
        if key.startswith((JOURNAL, SNAPSHOTS)):
            continue
        again = over.get(key)
        action = (
            Action(words="remove it: what it said is lost", delete=(key,))
            if again is None
            else Action(words="write it again, without its latencies", put={key: again})
        )
        yield Finding(
            id=f"record-{number_in(key)}",
            what=problem,
            consequence="the history of changes cannot be shown; nothing else depends on it",
            action=action,
        )
    left = {key: data for key, data in over.items() if key not in seen.records}
    if left and not seen.held:
        yield Finding(
            id="records-missing",
            what=f"{len(left)} changes are over and have no record",
            consequence="the history of changes is not complete; the next driver writes them",
            action=Action(words="write them, without their latencies", put=left),
        )


def number_in(key: str) -> str:
    """The name of a file without its folder and ending."""
    return key.rpartition("/")[2].removesuffix(".json")


def files(seen: Evidence) -> Iterator[Finding]:
    """Find segments and sink-buffer files that are gone."""
    if seen.missing and not seen.held:
        some = ", ".join(seen.missing[:3]) + (", ..." if len(seen.missing) > 3 else "")
        yield Finding(
            id="files-missing",
            what=f"{len(seen.missing)} files that the journal names are gone: {some}",
            consequence=f"timesteps that read them fail. {COPY}",
        )


def lease(seen: Evidence) -> Iterator[Finding]:
    """Find a lease whose driver has ended."""
    if seen.lease is not None and not seen.held:
        yield Finding(
            id="lease",
            what=f"{LEASE} names process {seen.lease.pid} on host {seen.lease.host}, which gives no sign any more",
            consequence="none: a driver may start all the same",
            action=Action(words="remove it", delete=(LEASE,)),
        )


def snapshots(seen: Evidence) -> Iterator[Finding]:
    """Find damaged snapshots; if the journal can be read without them, they can be removed."""
    for key in seen.snapshots:
        if key not in seen.damaged:
            continue
        if seen.state is None:
            yield Finding(id=f"snapshot-{number_of(key)}", what=seen.damaged[key], consequence=COPY)
        else:
            yield Finding(
                id=f"snapshot-{number_of(key)}",
                what=seen.damaged[key],
                consequence="none yet: the snapshot before it and the entries after that say the same",
                action=Action(words="remove it", delete=(key,)),
            )


def journal(seen: Evidence) -> Iterator[Finding]:
    """Find entries that are damaged, or missing between others."""
    torn = [key for key in seen.entries if key in seen.damaged]
    for key in torn:
        number = number_of(key)
        if seen.state is not None:
            consequence = "none as long as the snapshots after it are intact"
            yield Finding(id=f"entry-{number}", what=seen.damaged[key], consequence=consequence)
        elif key == seen.entries[-1]:
            yield Finding(
                id=f"entry-{number}",
                what=f"the last entry of the journal is damaged: {seen.damaged[key]}",
                consequence="no driver can start",
                action=Action(
                    words="remove it: what it said did not happen. If it was a commit, its timestep runs"
                    " again; if it had been acted on (its output was shown), restore a copy instead",
                    delete=(key,),
                ),
                advised=False,
            )
        else:
            yield Finding(id=f"entry-{number}", what=seen.damaged[key], consequence=COPY)
    if seen.state is None and not torn:
        yield Finding(id="journal", what=seen.problem, consequence=f"no driver can start. {COPY}")


def lost_end(seen: Evidence) -> Iterator[Finding]:
    """Find signs that entries at the end of the journal are gone."""
    state = seen.state
    if state is None:
        return
    if seen.head > state.number:
        told = HEAD if seen.lease is None or seen.lease.entry < seen.head else LEASE
        yield Finding(
            id="entries-lost",
            what=f"the journal ends with entry {state.number}, and a driver had written entry {seen.head}"
            f" ({told} says so): the last {seen.head - state.number} entries are gone",
            consequence="timesteps that were committed run again, and what they showed is shown twice, or otherwise."
            f" {COPY}",
            action=Action(
                words=f"go on from entry {state.number} all the same", delete=(HEAD, LEASE)
            ),
            advised=False,
        )
    withdrawn = (state.notes.get(WITHDRAWN) or {}).get("last") or 0
    known = max(state.last_intended or 0, withdrawn)
    if seen.latest is not None and seen.latest > known + 1 and not seen.held:
        yield Finding(
            id="later-files",
            what=f"files of timestep {seen.latest} are there, and the journal knows of none after {known}",
            consequence="entries at the end of the journal are gone, or these files are of another copy of this"
            f" directory. {COPY}",
        )


def _range(word: str, first: int, last: int) -> str:
    return f"{word} {first}" if first == last else f"{word}s {first} to {last}"


KINDS: tuple[Kind, ...] = (
    journal,
    lost_end,
    snapshots,
    files,
    open_timesteps,
    quarantine,
    owing_sinks,
    sinks_that_are_gone,
    history,
    lease,
)
"""All kinds of findings, the most severe first."""


def findings(seen: Evidence) -> tuple[Finding, ...]:
    """All findings, the most severe first."""
    return tuple(found for kind in KINDS for found in kind(seen))
