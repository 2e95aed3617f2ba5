"""Messages of the control operations of one driver, and the timesteps that they travel with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rechannel.control.board import Board, SentOperation
from rechannel.control.events import Completed
from rechannel.control.operation import Operation
from rechannel.engine.control.gathered import gathered
from rechannel.kernels.protocol.control import ControlMessage
from rechannel.kernels.tasks.unit_report import UnitReport
from rechannel.reconfigure.coordination import Coordination
from rechannel.reconfigure.coordinator import Decision
from rechannel.reconfigure.record import OPEN, Phase, Record


class Messages:
    """The messages of operations that are not over, by id. Belongs to the driver's thread."""

    def __init__(
        self, board: Callable[[], Board], coordination: Callable[[], Coordination]
    ) -> None:
        """board, coordination: as the journal has them."""
        self._board, self._coordination = board, coordination
        self._sent: dict[str, tuple[Operation, ControlMessage]] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._sent)

    def add(self, operation: Operation, message: ControlMessage) -> None:
        """Take the message of an operation that was begun."""
        self._sent[message.operation] = operation, message

    def operation(self, id_: str) -> Operation | None:
        """The operation of an id, as its controller made it in this driver."""
        known = self._sent.get(id_)
        return None if known is None else known[0]

    def forget(self) -> None:
        """Drop those of operations that are over."""
        seats = self._board().seats
        if len(self._sent) > len(seats):
            live = {seat.operation.id for seat in seats.values() if seat.operation is not None}
            self._sent = {id_: sent for id_, sent in self._sent.items() if id_ in live}

    def stuck(self, sent: SentOperation) -> str:
        """Why a blocking operation will never travel: its change has come to nothing; "" = it may."""
        if not sent.reconfiguration or sent.timestep is not None:
            return ""
        record = _record(self._coordination(), sent)
        if record is not None and (record.phase in OPEN or record.phase is Phase.DONE):
            return ""
        why = "is not known any more" if record is None else f"was {record.phase}: {record.reason}"
        return f"reconfiguration {sent.reconfiguration} {why}"

    def wants_timestep(self, decision: Decision) -> bool:
        """Whether an operation waits that has a timestep of its own if no rows arrive. decision: how it would begin."""
        urgent = [o for o in self._board().waiting if o.urgent] if self._board().seats else []
        if not urgent:
            return False
        coordination = self._coordination()
        for event in decision.events:
            coordination = coordination.after(event)
        return any(
            self._may_travel(sent, decision, coordination)
            or _waits_for_timesteps(_record(coordination, sent), coordination)
            for sent in urgent
        )

    def attached(self, decision: Decision) -> tuple[ControlMessage, ...]:
        """Return the messages that travel with the next timestep. decision: how it begins, as it is journalled."""
        if not self._board().seats:
            return ()
        now = self._coordination()
        ready = [o for o in self._board().waiting if self._may_travel(o, decision, now)]
        return tuple(self._sent[sent.id][1] for sent in ready)

    def _may_travel(
        self, sent: SentOperation, decision: Decision, coordination: Coordination
    ) -> bool:
        """Whether an operation travels with a timestep: one that makes a change does with the change's last step."""
        if sent.id not in self._sent:
            return False
        if not sent.request:
            return True
        record = _record(coordination, sent)
        if record is None:
            return False
        if record.phase is Phase.DONE:
            return True
        steps = sum(step.id == record.id for step in decision.steps)
        return record.phase is Phase.MOVING and len(record.left) == steps

    def again(self, timestep: int) -> tuple[ControlMessage, ...]:
        """Return the messages that travel with a timestep that runs again."""
        if not self._board().seats:
            return ()
        sent = self._board().travelling(timestep)
        return tuple(self._sent[each.id][1] for each in sent if each.id in self._sent)

    def completed(self, timestep: int, reports: Sequence[UnitReport]) -> tuple[Completed, ...]:
        """Return what the operations of a timestep have gathered, for its commit."""
        if not self._board().seats:
            return ()
        travelling = self._board().travelling(timestep)
        return tuple(
            Completed(
                operation=sent.id,
                reports=gathered(
                    (each for r in reports for each in r.controls if each[1].operation == sent.id),
                    len(travelling),
                ),
            )
            for sent in travelling
        )


def _record(coordination: Coordination, sent: SentOperation) -> Record | None:
    """The change that an operation makes; None = it is not accepted yet, or forgotten."""
    return next((r for r in coordination.records if r.id == sent.reconfiguration), None)


def _waits_for_timesteps(record: Record | None, coordination: Coordination) -> bool:
    """Whether a change, or one that it may wait for, makes steps that only a timestep can make."""
    if record is None or not record.open:
        return False
    under_way = (r for r in coordination.open if r.under_way and r.left)
    return any(move.stays for r in under_way for move in r.left[0].moves)
