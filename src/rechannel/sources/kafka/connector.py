"""Topics of Apache Kafka as a value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, TypeAlias, cast

import pyarrow as pa

from rechannel.errors import DataflowError, RefusedError
from rechannel.sources.connector import Connector, SourceContext
from rechannel.sources.kafka.columns import HEADERS, RECORD
from rechannel.sources.reader import SourceReader

Starting: TypeAlias = Literal["earliest", "latest"] | datetime | Mapping[str, Mapping[int, int]]
"""Where a new stream begins: with the first records, after the last ones, with the first records that are not before a
time, or at an offset by topic and partition (others: with their first records)."""

OnLost: TypeAlias = Literal["fail", "skip"]
"""What happens if records are gone before they were read: the job stops, or goes on with the first ones there are."""

OURS = {
    "bootstrap.servers": "give it as the first argument",
    "isolation.level": "give isolation=",
    "enable.auto.commit": "the journal keeps the offsets",
    "enable.auto.offset.store": "the journal keeps the offsets",
    "auto.offset.reset": "give starting= and on_lost=",
    "enable.partition.eof": "readers need it",
    "group.id": "give group=",
}
"""Options of the client that the source sets itself, and what to do instead."""


@dataclass(frozen=True, eq=False, kw_only=True)
class KafkaConnector(Connector):
    """Records of topics, each read once."""

    bootstrap: str
    """Brokers to begin with: host:port, separated by commas."""
    topics: tuple[str, ...] = ()
    pattern: str = ""
    """Regular expression that whole names of topics match, in place of `topics`."""
    assignments: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Partitions by topic, in place of `topics`."""
    starting: Starting = "earliest"
    per_timestep: int | None = None
    """Most records of a timestep; None for all that are there."""
    headers: bool = False
    """Whether records have the column `headers`."""
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    """Whether records of open and aborted transactions are left out."""
    on_lost: OnLost = "fail"
    group: str | None = None
    """Consumer group for which committed offsets are stored, for tools that show its lag; None for no group."""
    wait_s: float = 30.0
    """For how long a task waits for the next record, and the driver for an answer."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the client (librdkafka): security, for example."""

    def __post_init__(self) -> None:
        """Check what can be checked without the brokers. Raises DataflowError."""
        chosen = [bool(each) for each in (self.topics, self.pattern, self.assignments)]
        if sum(chosen) != 1:
            msg = "kafka: give one of topics, pattern=, assignments={topic: [partition, ...]}"
            raise DataflowError(msg)
        if not self.bootstrap.strip():
            raise DataflowError("kafka: give the brokers to begin with, as in 'host:9092'")
        _check_pattern(self.pattern)
        _check_starting(self.starting)
        for name, value in (("isolation", self.isolation), ("on_lost", self.on_lost)):
            if value not in CHOICES[name]:
                msg = f"kafka: {name} must be one of {', '.join(CHOICES[name])}, not {value!r}"
                raise DataflowError(msg)
        if self.per_timestep is not None and self.per_timestep < 1:
            raise DataflowError(
                f"kafka: per_timestep (records) must be at least 1, not {self.per_timestep}"
            )
        if not self.wait_s > 0:
            raise DataflowError(f"kafka: wait_s must be above 0, not {self.wait_s}")
        for name in self.options.keys() & OURS.keys():
            raise DataflowError(f"kafka: option {name!r} cannot be set: {OURS[name]}")

    @property
    def schema(self) -> pa.Schema:
        """Columns of a record."""
        return RECORD.append(HEADERS) if self.headers else RECORD

    @property
    def endless(self) -> str | None:
        """A topic ends where it ends when a run begins."""
        return None

    def what(self) -> str:
        """Return which topics these are."""
        if self.pattern:
            return f"topics like {self.pattern}"
        parts = [f"{topic} {list(of)}" for topic, of in self.assignments.items()]
        return ", ".join(self.topics or parts)

    def wants(self, topic: str) -> bool:
        """Return whether a topic of this name is read."""
        if self.pattern:
            return re.fullmatch(self.pattern, topic) is not None
        return topic in (self.topics or self.assignments)

    def describe(self) -> str:
        """Return the topics and the brokers."""
        return f"kafka {self.what()} at {self.bootstrap}"

    def beginning_at(self, to: object) -> KafkaConnector:
        """Return the source with other `starting`. Raises RefusedError for what that cannot be."""
        try:
            return self if to is None else replace(self, starting=cast("Starting", to))
        except DataflowError as error:
            raise RefusedError(str(error)) from error

    def unbounded(self) -> KafkaConnector:
        """Return the source with all records in one timestep."""
        return replace(self, per_timestep=None)

    def client(self) -> dict[str, str]:
        """Return the settings of a client, consumer or not."""
        return {"bootstrap.servers": self.bootstrap, "log_level": "2", **self.options}

    def open(self, context: SourceContext) -> SourceReader:
        """Open it. The brokers are asked at the first look only."""
        from rechannel.sources.kafka.reader import KafkaReader

        return KafkaReader(self, name=context.name)


CHOICES: Mapping[str, Sequence[str]] = {
    "isolation": ("read_committed", "read_uncommitted"),
    "on_lost": ("fail", "skip"),
}


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        msg = f"kafka: pattern {pattern!r} is no regular expression: {error}"
        raise DataflowError(msg) from error


def _check_starting(starting: object) -> None:
    if isinstance(starting, datetime):
        if starting.tzinfo is None:
            raise DataflowError(f"kafka: starting={starting} has no time zone: give one")
        return
    if isinstance(starting, Mapping):
        for topic, of in starting.items():
            numbers = [n for item in of.items() for n in item] if isinstance(of, Mapping) else [-1]
            if not all(type(number) is int and number >= 0 for number in numbers):
                msg = f"kafka: starting[{topic!r}] must be {{partition: offset}}, both whole numbers, not {of!r}"
                raise DataflowError(msg)
        return
    if starting not in ("earliest", "latest"):
        msg = (
            f"kafka: starting must be 'earliest', 'latest', a datetime or {{topic: {{partition: offset}}}},"
            f" not {starting!r}"
        )
        raise DataflowError(msg)
