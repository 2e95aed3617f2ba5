"""Replay dead letters: read those that were published, leave out what was taken, and append the rest to the log.

The log is input of the job like any other: the driver reads it when it looks at its sources, journals the range, and
commits it once. So a call may come while the job runs, or not; nothing here writes to the journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rechannel.dataflow.checks.replays import columns_of, replays_of
from rechannel.dataflow.graph.nodes import Dataflow, MapBatches, Node, Source
from rechannel.dataflow.identity.logic import dataflow_identity
from rechannel.engine.journal.state import JournalState
from rechannel.engine.letters.choosing import Asked, Chosen, choose
from rechannel.engine.letters.kept import keeper_of, letters_in
from rechannel.engine.letters.taken import Taken
from rechannel.engine.program.pruning import ColumnFunction
from rechannel.engine.program.versions import NOTE, current_version
from rechannel.errors import NotReadyError, RefusedError, UnknownOperatorError
from rechannel.operators.checks import suggest
from rechannel.replayed import LettersOf, ReplayedLetters
from rechannel.sources.replayed.log import ReplayLog
from rechannel.state.store import Store


@dataclass(frozen=True, kw_only=True)
class Letters:
    """The dead letters of a job."""

    dataflow: Dataflow
    """Of the running version."""
    store: Store
    state: JournalState

    def plan(self, asked: Asked) -> ReplayedLetters:
        """Return what a replay would bring. Raises RefusedError, NotReadyError."""
        self._check_version()
        found = {name: self._chosen(name, asked) for name in self._operators(asked)}
        return _shown(found, done=False)

    def replay(self, asked: Asked, time_ms: int) -> ReplayedLetters:
        """Append to the log what a replay brings, one file for each operator. Raises RefusedError, NotReadyError."""
        self._check_version()
        facts = {"cause": asked.cause, "time_ms": time_ms}
        # All are chosen before any is appended: what is refused changes nothing.
        first = {name: self._numbered(name, asked) for name in self._operators(asked)}
        found = {name: self._appended(name, asked, facts, *first[name]) for name in first}
        return _shown(found, done=True)

    def _operators(self, asked: Asked) -> list[str]:
        there = replays_of(self.dataflow)
        if not there and not asked.operators:
            msg = (
                "no operator of the program takes replayed rows: put .with_replays('name') directly before the one"
                " whose dead letters are to be tried again, and deploy that"
            )
            raise RefusedError(msg)
        for name in asked.operators:
            self._check_operator(name)
        return list(dict.fromkeys(asked.operators or there))

    def _check_operator(self, name: str) -> None:
        if name not in self.dataflow.by_name:
            known = [str(node.name) for node in self.dataflow.nodes]
            msg = f"the program has no operator {name!r}{suggest(name, known)}: its dead letters have nowhere to go"
            raise UnknownOperatorError(msg)
        if name not in replays_of(self.dataflow):
            msg = (
                f"operator {name!r} takes no replayed rows: put .with_replays({name!r}) directly before it, and deploy"
                " that"
            )
            raise RefusedError(msg)

    def _check_version(self) -> None:
        """Raise RefusedError unless the program is the one that the state directory belongs to."""
        if self.state.last_committed is None:
            msg = "no timestep is committed yet, so there are no dead letters"
            raise NotReadyError(msg)
        known = self.state.notes[NOTE][str(current_version(self.state))]["identity"]
        mine = dataflow_identity(self.dataflow)
        for name, source in replays_of(self.dataflow).items():
            if any(known.get(each) != mine.get(each) for each in (name, source.name)):
                msg = (
                    f"operator {name!r} of this program is not the one that the state directory has: start or deploy"
                    " this program first, or give the file of the one that runs"
                )
                raise RefusedError(msg)

    def _chosen(self, name: str, asked: Asked) -> Chosen:
        source = replays_of(self.dataflow)[name]
        if not self.state.offsets.get(str(source.name)):
            msg = (
                f"source {source.name!r} has not begun: let the job run with this program until its next timestep is"
                " committed, which it is without input"
            )
            raise NotReadyError(msg)
        until = min(self._latest, asked.until) if asked.until is not None else self._latest
        kept = letters_in(keeper_of(self.dataflow, name), name, asked.since or 0, until)
        taken = Taken.of(self._log(source).files())
        schema = columns_of(source)
        needed = needed_of(self.dataflow.by_name[name], frozenset(schema.names))
        return choose(kept, asked, taken, schema, needed)

    def _numbered(self, name: str, asked: Asked) -> tuple[int, Chosen]:
        """Return the number of the next file, and what it brings beyond those before it. Raises NotReadyError."""
        source = replays_of(self.dataflow)[name]
        log = self._log(source)
        number = log.newest() + 1
        chosen = self._chosen(name, asked)
        if log.has_ended(self.state.offsets[str(source.name)]["files"]):
            msg = (
                f"a change of the program removes source {source.name!r}, or was about to: try again after the next"
                " timestep of a program that has it"
            )
            raise NotReadyError(msg)
        return number, chosen

    def _appended(
        self, name: str, asked: Asked, facts: Mapping[str, Any], number: int, chosen: Chosen
    ) -> Chosen:
        """Append to the log; choose again if another call was faster."""
        log = self._log(replays_of(self.dataflow)[name])
        while chosen.taken.num_rows and not log.create(number, chosen.taken, facts):
            number, chosen = self._numbered(name, asked)
        return chosen

    @property
    def _latest(self) -> int:
        return self.state.last_committed or 0

    def _log(self, source: Source) -> ReplayLog:
        return ReplayLog(self.store, str(source.name))


def needed_of(operator: Node, names: frozenset[str]) -> frozenset[str]:
    """Return which columns of its input an operator needs. names: of all of them."""
    if isinstance(operator, MapBatches) and isinstance(operator.function, ColumnFunction):
        made = operator.schema.names if operator.schema is not None else names
        return names & operator.function.reads(frozenset(made))
    return names


def _shown(found: Mapping[str, Chosen], *, done: bool) -> ReplayedLetters:
    return ReplayedLetters(
        done=done,
        operators=tuple(
            LettersOf(
                operator=name,
                rows=one.taken.num_rows,
                errors=dict(one.errors),
                refused=dict(one.refused),
                before=one.before,
                left=one.left,
            )
            for name, one in found.items()
        ),
    )
