"""Control operations in a task: messages arrive on every input channel, handlers run, replies are merged and go on.

A message goes to every task of every consumer, as watermarks do; the replies that it has gathered go with one of them,
so that each arrives once. The body of a blob is

    {"from": operator, "task": number, "controls": [{"operation": id, "replies": {operator: value}, ...}]}
"""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from rechannel.kernels.protocol.control import (
    ControlChannel,
    ControlMessage,
    OperatorHandler,
    TaskView,
)
from rechannel.kernels.protocol.program import StageProgram, StageStep
from rechannel.kernels.shuffle.wire import CONTROL, Blob, pack
from rechannel.kernels.tasks.emit import Emitter
from rechannel.kernels.tasks.limited import Budget, FailedCallError
from rechannel.kernels.tasks.replies import Merging, by_operator, read, written
from rechannel.kernels.tasks.report import ControlReport, FailedReply
from rechannel.model.codec import Json, decode, encode

FAILURES_KEPT = 8
"""Failed replies of an operation that are kept; of others only the number."""

ERROR_CHARACTERS = 2_000
"""Length to which the text of a failed reply is cut."""

ChannelId: TypeAlias = tuple[int, int]
"""A producer, and the input that it sends to."""

View = Callable[[OperatorHandler, ControlMessage], TaskView]
"""Makes what a handler of an operation sees of the task."""


@dataclass
class Controls:
    """The control operations that pass one task."""

    program: StageProgram
    step: StageStep
    task: int
    arrived: Sequence[Blob] = ()
    """Control messages of the task's producers."""
    data: Sequence[Blob] = ()
    """Rows of the task's producers."""
    gathered: dict[str, ControlReport] = field(default_factory=dict)
    """By operation: what has arrived, and what this task adds."""
    _channels: dict[str, list[ControlChannel]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Sort out what has arrived. The order of the channels does not depend on the order of arrival."""
        self.gathered = {m.operation: ControlReport(operation=m.operation) for m in self._messages}
        self._channels = {message.operation: [] for message in self._messages}
        self._came: dict[str, list[ControlReport]] = {m.operation: [] for m in self._messages}
        rows, size = self._traffic()
        for blob in sorted(self.arrived, key=lambda blob: (blob.producer, blob.input)):
            body = json.loads(blob.message.to_pybytes())
            sender = blob.producer, blob.input
            for control in body["controls"]:
                report = decode(ControlReport, control)
                self._came[report.operation].append(report)
                channel = ControlChannel(
                    operator=body["from"],
                    task=body["task"],
                    replies=report.replies,
                    rows=rows[sender],
                    bytes=size[sender],
                )
                self._channels[report.operation].append(channel)

    def _traffic(self) -> tuple[Counter[ChannelId], Counter[ChannelId]]:
        """Return the rows and the bytes that came on each channel."""
        rows, size = Counter[ChannelId](), Counter[ChannelId]()
        for blob in self.data:
            rows[blob.producer, blob.input] += blob.rows
            size[blob.producer, blob.input] += blob.message.size
        return rows, size

    @property
    def heaviest(self) -> int:
        """How many of the task's heaviest keys the handlers want to see."""
        here = [m for m in self._messages if m.runs_in(self.program.operator)]
        return max((m.heaviest for m in here), default=0)

    @property
    def _messages(self) -> tuple[ControlMessage, ...]:
        return self.step.controls

    def run(self, view: View, *, blocking: bool) -> None:
        """Run the handlers of all operations of one kind: blocking ones before the rows, others after them."""
        for message in self._messages:
            if message.blocking is blocking:
                self._run(message, view)

    def _run(self, message: ControlMessage, view: View) -> None:
        report = ControlReport(operation=message.operation)
        budget = Budget(message.seconds, message.sender)
        try:
            handler = budget.within(partial(_handler, message))
        except FailedCallError as error:
            # Nothing can be merged without it, so what has arrived ends here.
            self.gathered[message.operation] = self._failed(report, str(error))
            return
        report = self._merged(message, handler, report, budget)
        if message.runs_in(self.program.operator):
            try:
                value = budget.within(partial(self._reply, message, handler, view))
                if value is not None:
                    own = {self.program.operator: value}
                    report = replace(report, replies={**report.replies, **own})
            except FailedCallError as error:
                report = self._failed(report, str(error))
            report = self._disposed(handler, report, budget)
        self.gathered[message.operation] = report

    def _reply(self, message: ControlMessage, handler: OperatorHandler, view: View) -> Json:
        """What the handler of an operation replies, as JSON. Raises what it raises."""
        task = view(handler, message)
        handler.on_begin(task)
        for channel in self._channels[message.operation]:
            known = {n: read(handler, value) for n, value in channel.replies.items()}
            handler.on_next(task, replace(channel, replies=known))
        reply = handler.on_complete(task)
        return None if reply is None else written(handler, reply, message.reply_bytes)

    def _disposed(
        self, handler: OperatorHandler, report: ControlReport, budget: Budget
    ) -> ControlReport:
        """Return the report after `on_dispose`, whose failure leaves the reply unchanged."""
        if budget.spent or type(handler).on_dispose is OperatorHandler.on_dispose:
            return report
        try:
            budget.within(handler.on_dispose)
        except FailedCallError as error:
            return self._failed(report, f"on_dispose: {error}")
        return report

    def _merged(
        self,
        message: ControlMessage,
        handler: OperatorHandler,
        report: ControlReport,
        budget: Budget,
    ) -> ControlReport:
        """Return what has arrived on all channels as one report, merged by operator."""
        came = self._came[message.operation]
        report = bounded(
            replace(
                report,
                failures=tuple(failure for each in came for failure in each.failures),
                more=sum(each.more for each in came),
            )
        )
        replies: dict[str, Json] = {}
        for operator, values in by_operator(each.replies for each in came).items():
            if len(values) == 1:
                replies[operator] = values[0]
                continue
            merging = Merging(handler=handler, values=values, most=message.reply_bytes)
            try:
                replies[operator] = budget.within(merging.run)
            except FailedCallError as error:
                merging.errors.append(str(error))
            for text in merging.errors:
                report = self._failed(report, text, operator)
        return replace(report, replies=replies)

    def _failed(
        self, report: ControlReport, error: str, operator: str | None = None
    ) -> ControlReport:
        failure = FailedReply(
            operator=operator or self.program.operator,
            task=self.task,
            error=error[-ERROR_CHARACTERS:],
        )
        return bounded(replace(report, failures=(*report.failures, failure)))

    def parcels(self, emitter: Emitter) -> Iterator[tuple[int, bytes]]:
        """Yield (partition, blob) for every task of the consumers, after all rows and watermarks."""
        if not self.gathered:
            return
        whole, bare = self._body(with_replies=True), self._body(with_replies=False)
        home = True
        for (_, into), address in self.step.addresses.items():
            for task in range(address.routing.tasks):
                mine = home and task == self.task % address.routing.tasks
                body = whole if mine else bare
                yield address.first + task, _blob(body, emitter.producer, into)
            home = False

    def _body(self, *, with_replies: bool) -> bytes:
        controls = [
            encode(report if with_replies else ControlReport(operation=report.operation))
            for report in self.gathered.values()
        ]
        body = {"from": self.program.operator, "task": self.task, "controls": controls}
        return json.dumps(body, separators=(",", ":")).encode()

    def ended(self) -> tuple[ControlReport, ...]:
        """Return what operations have gathered that go no further: the task has no consumers."""
        return () if self.step.addresses else tuple(self.gathered.values())


def _blob(body: bytes, producer: int, into: int) -> bytes:
    return pack(
        Blob(
            kind=CONTROL,
            input=into,
            producer=producer,
            sequence=0,
            combined=False,
            rows=0,
            message=pa.py_buffer(body),
        )
    )


def bounded(report: ControlReport) -> ControlReport:
    """Return a report with at most FAILURES_KEPT failures; the others are counted."""
    over = len(report.failures) - FAILURES_KEPT
    if over <= 0:
        return report
    return replace(report, failures=report.failures[:FAILURES_KEPT], more=report.more + over)


def _handler(message: ControlMessage) -> OperatorHandler:
    made = pickle.loads(message.handler)
    if not isinstance(made, OperatorHandler):
        msg = f"the handler of operation {message.operation!r} is a {type(made).__name__}, not an OperatorHandler"
        raise TypeError(msg)
    return made
