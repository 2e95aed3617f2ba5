"""What controllers should have come to: a naive fold of the journal's entries, without crashes and restarts.

The journal says in which order things happened. What follows from that is computed here once more: the state of every
controller by the plans of `control_programs.py`, what its operations have to reply by what the stream has processed in
the timestep that they travelled with, and what became of every request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import reduce
from typing import Any, Protocol

from rechannel.control import events as on
from rechannel.engine.journal import entries as log
from rechannel.model.configuration import Configuration
from rechannel.reconfigure.events import Finished, Requested, Stepped
from tests.property.control_programs import Counts, Plan, Stage, added


class Truth(Protocol):
    """What a stream has processed. None = that cannot be told."""

    def rows(self, source: str, timestep: int) -> int | None:
        """Rows that a source has read."""

    def state(self, operator: str, timestep: int) -> int | None:
        """Rows of its state before a timestep."""

    def expires(self, operator: str) -> bool:
        """Whether rows of its state go when time passes."""


@dataclass
class Sent:
    """An operation that is not over. change: number of the request for its change; 0 = it makes none."""

    id: str
    plan: Plan
    blocking: bool
    change: int
    timestep: int | None = None
    reports: Any = None
    restarts: int = 0


@dataclass
class Seat:
    """One controller."""

    name: str
    serial: int
    state: Counts = field(default_factory=Counts)
    sent: Sent | None = None
    requested: int = 0
    pending: set[int] = field(default_factory=set)
    answers: dict[int, str] = field(default_factory=dict)
    lost: int = 0
    """Operations in a row to which every reply has failed."""


@dataclass
class Twin:
    """The fold. happened: how often each thing did."""

    stage: Stage
    truth: Truth
    happened: Counter[str] = field(default_factory=Counter)
    seats: dict[str, Seat] = field(default_factory=dict)
    serial: int = 0
    seen: set[str] = field(default_factory=set)
    accepted: dict[str, str] = field(default_factory=dict)
    """Ids of reconfigurations, by the request that they carry out."""
    stepped: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    known: dict[int, Configuration] = field(default_factory=dict)
    held: dict[int, Configuration] = field(default_factory=dict)
    """Configurations by version, and by timestep."""

    def run(self, entries: Mapping[int, bytes]) -> None:
        """Fold all entries."""
        for number, data in sorted(entries.items()):
            body = log.Entry.from_bytes(data, name=f"entry {number}").body
            fold = getattr(self, f"_{type(body).__name__.lower()}", None)
            if fold is not None:
                fold(body)

    # Entries -------------------------------------------------------------------------------------

    @property
    def sent(self) -> list[Sent]:
        """Operations that are not over."""
        return [seat.sent for seat in self.seats.values() if seat.sent is not None]

    def _opened(self, body: log.Opened) -> None:
        for sent in self.sent:
            sent.restarts += 1

    def _configurationchanged(self, body: log.ConfigurationChanged) -> None:
        self.known[body.configuration.version] = body.configuration
        self.stepped.update(step.id for step in body.steps)

    def _intent(self, body: log.Intent) -> None:
        if body.configuration is not None:
            self.known[body.configuration_version] = body.configuration
        self.held[body.timestep] = self.known[body.configuration_version]
        self.stepped.update(step.id for step in body.steps)
        for id_ in body.controls:
            (seat,) = (s for s in self.seats.values() if s.sent is not None and s.sent.id == id_)
            sent = seat.sent
            assert sent is not None
            assert sent.timestep is None, f"{id_} travels twice"
            if sent.change:
                change = self.accepted[f"c{seat.serial}/{sent.change}"]
                assert change in self.stepped | self.done, f"{id_} travels before its change"
            sent.timestep = body.timestep

    def _withdrawn(self, body: log.Withdrawn) -> None:
        for sent in self.sent:
            if sent.timestep is not None and sent.timestep >= body.from_timestep:
                sent.timestep = None
                self.happened["operation withdrawn"] += 1

    def _committed(self, body: log.Committed) -> None:
        travelled = {s.id: s for s in self.sent if s.timestep == body.timestep}
        found = {each.operation for each in body.controls}
        assert found == set(travelled), f"timestep {body.timestep} commits {found}, not {travelled}"
        for each in body.controls:
            sent = travelled[each.operation]
            sent.reports = each.reports
            self._check_replies(sent, body.timestep)

    def _check_replies(self, sent: Sent, timestep: int) -> None:
        """Compare what an operation has gathered with what it has to."""
        got = merged(sent.reports)
        where = f"{sent.id} in timestep {timestep}, {sent.plan}"
        failed = sum(len(r.failures) + r.more for r in sent.reports)
        expected_failures = 0
        for name, operator in self.held[timestep].operators.items():
            reply = got.pop(name, None)
            if not sent.plan.runs_in(name):
                assert reply is None, f"{where}: {name} replies {reply}"
                continue
            if sent.plan.fails_in(name):
                assert reply is None, f"{where}: {name} replies {reply}"
                expected_failures = operator.tasks if name in self.stage.keyed else failed
                assert failed, f"{where}: nothing failed"
                continue
            assert reply is not None, f"{where}: {name} does not reply; {sent.reports}"
            if name in self.stage.keyed:  # tasks of sources are as many as there are splits
                assert reply["tasks"] == operator.tasks, f"{where}: {name} replies {reply}"
            assert not reply["odd"], f"{where}: {name} replies {reply}"
            assert not reply.get("wrong"), f"{where}: {name} replies {reply}"
            self._check_rows(sent, name, timestep, reply)
        assert not got, f"{where}: {got} of nobody"
        assert failed == expected_failures, f"{where}: {failed} failures, not {expected_failures}"
        self.happened["handlers failed"] += failed > 0
        self.happened[f"replies of {sent.plan.handler}"] += 1

    def _check_rows(self, sent: Sent, name: str, timestep: int, reply: dict[str, int]) -> None:
        where = f"{sent.id} in timestep {timestep}: {name} replies {reply}"
        if "rows" in reply:
            rows = 0 if sent.blocking else self.truth.rows(name, timestep)
            assert rows is None or reply["rows"] == rows, f"{where}, and {rows} rows came"
            self.happened["rows compared"] += bool(rows)
        if "state" in reply and not reply.get("unread"):
            rows = self.truth.state(name, timestep)
            least = 0 if rows is None or self.truth.expires(name) else rows
            assert rows is None or least <= reply["state"] <= rows, f"{where}, {rows} were there"
            self.happened["state compared"] += bool(rows)
        self.happened["heaviest keys seen"] += bool(reply.get("heavy"))

    def _reconfiguring(self, body: log.Reconfiguring) -> None:
        event = body.event
        if isinstance(event, Requested) and event.origin:
            assert event.origin not in self.accepted, f"{event.origin} is carried out twice"
            self.accepted[event.origin] = event.id
        elif isinstance(event, Finished) and event.outcome == "done":
            self.done.add(event.id)
        assert not isinstance(event, Stepped)

    def _controlling(self, body: log.Controlling) -> None:
        for event in body.events:
            kind = type(event).__name__.lower()
            self.happened[f"controller {kind}"] += 1
            getattr(self, f"_on_{kind}")(event)

    # Events --------------------------------------------------------------------------------------

    def _on_installed(self, event: on.Installed) -> None:
        if event.controller in self.seats:
            self.happened["installed again"] += 1
            return
        self.serial += 1
        self.seats[event.controller] = Seat(name=event.controller, serial=self.serial)
        assert event.state == asdict(Counts())

    def _on_removed(self, event: on.Removed) -> None:
        gone = self.seats.pop(event.controller)
        self.happened["removed with an operation"] += gone.sent is not None

    def _on_paused(self, event: on.Paused) -> None:
        self.happened["suspended"] += event.suspended

    def _on_unpaused(self, event: on.Unpaused) -> None:
        self.seats[event.controller].lost = 0

    def _on_called(self, event: on.Called) -> None:
        assert event.controller in self.seats

    def _on_handled(self, event: on.Handled) -> None:
        seat = self.seats[event.controller]
        if event.callback == "begin":
            self._begun(seat, event)
        else:
            self._completed(seat, event)
        for _ in event.requests:
            seat.requested += 1
            seat.pending.add(seat.requested)

    def _begun(self, seat: Seat, event: on.Handled) -> None:
        assert seat.sent is None, f"{seat.name} begins while {seat.sent} is under way"
        plan = self.stage.plan(seat.name, seat.state.begun)
        seat.state = seat.state.begin()
        check_state(seat, event)
        assert bool(event.operation) == bool(plan.handler)
        if not event.operation:
            return
        assert event.operation not in self.seen, f"{event.operation} is sent twice"
        self.seen.add(event.operation)
        change = seat.requested + 1 if event.changes else 0
        seat.sent = Sent(event.operation, plan, plan.blocking, change)
        self.happened["sent to some operators"] += plan.operators is not None

    def _completed(self, seat: Seat, event: on.Handled) -> None:
        sent = seat.sent
        assert sent is not None, f"{event.operation} of {seat.name} completes twice"
        assert (event.operation, sent.reports is None) == (sent.id, False)
        assert sent.timestep is not None
        failed = sum(len(r.failures) + r.more for r in sent.reports)
        for _ in sent.reports:
            seat.state = seat.state.hear()
        seat.state = seat.state.complete(sent.timestep, merged(sent.reports), failed)
        check_state(seat, event)
        lost = failed > 0 and not merged(sent.reports)
        seat.lost = seat.lost + 1 if lost else 0
        self.happened["every reply failed"] += lost
        seat.sent = None
        what = "blocking" if sent.blocking else "non-blocking"
        self.happened[f"{what} completed"] += 1
        self.happened["blocking with a change completed"] += bool(sent.change)
        self.happened["completed after a restart"] += sent.restarts > 0

    def _on_failed(self, event: on.Failed) -> None:
        seat = self.seats[event.controller]
        self.happened[f"{event.callback} raised"] += 1
        if seat.sent is not None and seat.sent.id == event.operation:
            seat.sent = None

    def _on_dropped(self, event: on.Dropped) -> None:
        seat = self.seats[event.controller]
        assert seat.sent is not None
        assert seat.sent.id == event.operation
        seat.sent = None

    def _on_answered(self, event: on.Answered) -> None:
        seat = self.seats[event.controller]
        origin = f"c{seat.serial}/{event.request}"
        assert event.request in seat.pending, f"{origin} was never requested, or answered before"
        seat.pending.discard(event.request)
        assert self.accepted.get(origin, "") == event.reconfiguration, f"answer to {origin}"
        self.happened["request refused" if event.refusal else "request accepted"] += 1
        sent = seat.sent
        if sent is not None and sent.change == event.request and event.refusal:
            seat.sent = None
            self.happened["blocking refused"] += 1


def check_state(seat: Seat, event: on.Handled) -> None:
    """A controller's state is the twin's."""
    expected = asdict(seat.state)
    assert event.state == expected, (
        f"{event.callback} of {seat.name}: {event.state}, not {expected}"
    )


def merged(reports: Any) -> dict[str, dict[str, int]]:
    """What the last tasks delivered, added up by operator."""
    found: dict[str, list[dict[str, int]]] = {}
    for report in reports:
        for name, reply in report.replies.items():
            found.setdefault(name, []).append(reply)
    return {name: reduce(added, replies) for name, replies in found.items()}
