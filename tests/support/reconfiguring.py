"""A reconfigurer without a driver around it, and a preparer that writes down what it is asked."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from rechannel import changes
from rechannel.engine.journal.entries import Opened
from rechannel.engine.journal.log import Journal
from rechannel.engine.program.position import StreamPosition
from rechannel.engine.reconfigure.measured import Measured
from rechannel.engine.reconfigure.preparer import NothingToPrepare
from rechannel.engine.reconfigure.reconfigurer import Abilities, Reconfigurer
from rechannel.reconfigure import strategies
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.record import Phase, Record
from rechannel.reconfigure.requests import Request
from rechannel.testing import MemoryStore
from rechannel.testing.process import StepExecutor
from tests.support.changing import two

HALF = changes.move("counts", [0, 1, 2, 3], 1)


class Preparer(NothingToPrepare):
    """Writes down what it is asked; `result` is what it finds, or raises."""

    def __init__(self, result: dict[str, Any] | BaseException | None = None) -> None:
        self.result = {} if result is None else result
        self.heard: list[tuple[str, str]] = []
        self.cannot: str | None = None
        self.total: dict[str, Any] = {}

    def prepare(self, record: Record, now: Any, manifests: Any) -> dict[str, Any]:
        del now, manifests
        self.heard.append(("prepare", record.id))
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result

    def prepare_next_steps(self, record: Record, now: Any, manifests: Any) -> None:
        self.heard.append(("ahead", f"{record.id} {len(record.left)}"))

    def final_facts(self, record: Record) -> dict[str, Any]:
        if record.phase is Phase.SUPERSEDED:
            self.heard.append(("facts", record.id))
        return self.total

    def impossible(self, record: Record) -> str | None:
        return self.cannot

    def places(self) -> dict[str, dict[int, str]]:
        return {"counts": {0: "3"}}

    def release(self, record: Record) -> None:
        self.heard.append((str(record.phase), record.id))


def accepted(changes: Reconfigurer, request: Request, position: StreamPosition) -> str:
    """The id of a request that is answered at a position; nothing is prepared."""
    answer = changes.request(request)
    changes.answer_calls(position)
    return answer.result(0)


@dataclass
class Hands:
    """A reconfigurer without a driver around it."""

    preparer: Preparer = field(default_factory=Preparer)
    executor: StepExecutor | None = field(default_factory=StepExecutor)
    store: MemoryStore = field(default_factory=MemoryStore)
    told: list[Record] = field(default_factory=list)
    woken: int = 0

    def __post_init__(self) -> None:
        self.journal, _ = Journal.open(self.store, keep_versions=1, snapshot_every=64)
        self.journal.append(Opened(host="test", pid=0, time_ms=0, fingerprint="", version="0"))
        self.here = StreamPosition(timestep=1, time_ms=100, configuration=two(), drained=True)
        self.changes = Reconfigurer(
            journal=self.journal,
            measured=Measured(dict),
            abilities=Abilities(combinable=frozenset({"counts"}), sources=frozenset({"in"})),
            preparer=self.preparer,
            wake=self.wake,
            executor=self.executor,
            listener=self.told.append,
        )

    def wake(self) -> None:
        self.woken += 1

    def ask(self, change: Change = HALF, **more: Any) -> Future[str]:
        request = Request(
            change=change, strategy=more.pop("strategy", strategies.all_at_once()), **more
        )
        return self.changes.request(request)

    def turn(self) -> bool:
        return self.changes.answer_and_prepare(self.here, dict)

    def asked(self, change: Change = HALF, **more: Any) -> str:
        """The id of a request that is answered; its preparation is held."""
        answer = self.ask(change, **more)
        assert self.turn()
        return answer.result(0)

    def abort(self, id_: str) -> None:
        """Abort a request; nothing is prepared in the same turn."""
        answer = self.changes.request_abort(id_, "no more")
        self.changes.answer_calls(self.here)
        answer.result(0)

    def find(self, id_: str) -> Record:
        return self.changes.coordination.find(id_)

    def phase(self, id_: str) -> str:
        return str(self.find(id_).phase)
