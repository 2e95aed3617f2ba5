"""Every record as the text that files hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from rechannel.engine.journal import snapshot
from rechannel.engine.journal.entries import Entry
from rechannel.engine.journal.lease import Holder
from rechannel.model.codec import decode, encode
from rechannel.model.configuration import Configuration, OperatorConfiguration, Resources
from rechannel.model.eventtime import Times
from rechannel.model.routing import Routing
from rechannel.reconfigure import strategies
from rechannel.reconfigure.changes.registry import KINDS
from rechannel.reconfigure.coordination import Coordination
from rechannel.reconfigure.events import event_from_json
from rechannel.reconfigure.moment import EventMoment
from rechannel.reconfigure.plan import Plan
from rechannel.reconfigure.record import Record
from rechannel.reconfigure.steps import Step
from rechannel.state.manifest import Edit
from rechannel.state.run import Run
from rechannel.state.sealed import canonical
from rechannel.telemetry.events import event_from_json as telemetry_from_json
from rechannel.telemetry.events import event_to_json as telemetry_to_json


def as_json(value: Any) -> Any:
    return value.to_json() if hasattr(value, "to_json") else encode(value)


def _text(value: Any) -> str:
    return canonical(as_json(value)).decode()


def _line(value: Any) -> str:
    return json.dumps(telemetry_to_json(value), separators=(",", ":"))


WRITERS: Mapping[str, Callable[[Any], str]] = {
    "Plan": lambda plan: json.dumps(plan.to_json(), indent=1),
    "Entry": lambda entry: entry.to_bytes().decode(),
    "JournalState": lambda state: snapshot.to_bytes(state).decode(),
    "Telemetry": _line,
}
"""What is not written as canonical JSON."""


def _of_json(decode: Callable[[Any], Any]) -> Callable[[str], Any]:
    return lambda text: decode(json.loads(text))


def _read_as(kind: type) -> Callable[[str], Any]:
    return lambda text: decode(kind, json.loads(text))


READERS: Mapping[str, Callable[[str], Any]] = {
    "Run": _read_as(Run),
    "Edit": _read_as(Edit),
    "Times": _read_as(Times),
    "Routing": _read_as(Routing),
    "Resources": _read_as(Resources),
    "OperatorConfiguration": _read_as(OperatorConfiguration),
    "Configuration": _read_as(Configuration),
    "Change": _of_json(KINDS.read),
    "Strategy": _of_json(strategies.from_json),
    "Step": _read_as(Step),
    "Event": _of_json(event_from_json),
    "EventMoment": _read_as(EventMoment),
    "Record": _read_as(Record),
    "Coordination": _read_as(Coordination),
    "Plan": _of_json(Plan.from_json),
    "Entry": lambda text: Entry.from_bytes(text.encode(), name="an entry"),
    "JournalState": lambda text: snapshot.from_bytes(text.encode(), name="a snapshot"),
    "Telemetry": _of_json(telemetry_from_json),
    "Holder": _read_as(Holder),
}


def text_of(kind: str, value: Any) -> str:
    return WRITERS.get(kind, _text)(value)
