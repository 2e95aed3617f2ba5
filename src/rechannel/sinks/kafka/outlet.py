"""A topic of Apache Kafka as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from rechannel.errors import DataflowError, SetUpError
from rechannel.sinks.keyed_changes import check_changes, check_keyed
from rechannel.sinks.outlet import Outlet, SinkContext
from rechannel.sinks.writer import SinkWriter

OURS = {
    "bootstrap.servers": "give it as the first argument",
    "transactional.id": "it is made of the job and the sink",
    "enable.idempotence": "records are never doubled by the client's retries",
}
"""Options of the client that the sink sets itself, and what to do instead."""


@dataclass(frozen=True, eq=False, kw_only=True)
class KafkaOutlet(Outlet):
    """Records of one topic."""

    bootstrap: str
    """Brokers to begin with: host:port, separated by commas."""
    topic: str
    key: str = ""
    """Column of the records' keys; empty for records without."""
    changes: str = ""
    """Column that says what becomes of a row's key, as in a changelog; empty if rows are no changes."""
    value: str = ""
    """Column of the values, text or binary; empty for all columns as one JSON object."""
    timestamp: str = ""
    """Column of the records' times; empty for the time at which they are written."""
    exactly_once: bool = True
    """Whether readers with `read_committed` see every row once; otherwise at least once, and at once."""
    wait_s: float = 60.0
    """For how long the driver waits for the brokers."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the client (librdkafka): security, for example."""
    keeps_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check what can be checked without the brokers. Raises DataflowError."""
        for name in ("bootstrap", "topic"):
            if not getattr(self, name).strip():
                raise DataflowError(f"write.kafka: give {name}")
        check_keyed("write.kafka", self.changes, (self.key,), "key")
        if not self.wait_s > 0:
            raise DataflowError(f"write.kafka: wait_s must be above 0, not {self.wait_s}")
        for name in self.options.keys() & OURS.keys():
            raise DataflowError(f"write.kafka: option {name!r} cannot be set: {OURS[name]}")

    @property
    def home(self) -> str:
        """The topic."""
        return f"topic {self.topic}"

    @property
    def place(self) -> str:
        """Brokers and topic."""
        return f"kafka {self.bootstrap} {self.topic}"

    @property
    def guarantee(self) -> str:
        """Return what readers with `read_committed` see."""
        return "exactly once, with read_committed" if self.exactly_once else "at least once"

    def describe(self) -> str:
        """Return topic and brokers."""
        how = "" if self.exactly_once else ", at least once"
        told = f", changes in {self.changes}" if self.changes else ""
        return f"kafka {self.topic} at {self.bootstrap}{how}{told}"

    def client(self) -> dict[str, str]:
        """Return the settings of a client."""
        return {"bootstrap.servers": self.bootstrap, "log_level": "2", **self.options}

    def open(self, context: SinkContext) -> SinkWriter:
        """Open it. The brokers are asked when the driver owns the journal, not before."""
        try:
            import confluent_kafka  # noqa: F401 - only whether it is there
        except ImportError as error:
            msg = "writing to Kafka needs confluent-kafka: pip install 'rechannel[kafka]'"
            raise SetUpError(msg) from error
        from rechannel.sinks.kafka.records import RecordColumns
        from rechannel.sinks.kafka.writer import KafkaWriter

        columns = RecordColumns(key=self.key, value=self.value, timestamp=self.timestamp)
        if context.schema is not None:
            columns.check(context.schema, context.label)
            check_changes(self.changes, (self.key,), context.schema, context.label)
        return KafkaWriter(self, columns, context)
