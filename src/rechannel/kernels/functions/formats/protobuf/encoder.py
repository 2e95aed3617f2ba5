"""Rows as messages, a batch at a time."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from rechannel.kernels.functions.formats.encoder import Encoded, Encoder, rows_apart
from rechannel.kernels.functions.formats.framing import framing
from rechannel.kernels.functions.formats.protobuf.doubts import doubtful
from rechannel.kernels.functions.formats.protobuf.format import handler
from rechannel.kernels.functions.formats.protobuf.framing import place_of
from rechannel.kernels.functions.formats.protobuf.shaped import check, shaped
from rechannel.kernels.functions.formats.protobuf.types import Message, columns_of, descriptor_of
from rechannel.kernels.functions.formats.subjects import Offered, Subject, agreed, id_of

KNOWN = ("google/protobuf/", "google/type/", "confluent/")
"""Folders of files that every registry has by itself."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ProtobufEncoder(Encoder):
    """Writes messages. A null is a field that is absent."""

    called: ClassVar[str] = "Protobuf"
    message: Message
    subject: Subject | None = None
    """Under which the registry has the file of the message; None = messages alone."""

    def __post_init__(self) -> None:
        """Check the message. Raises DataflowError, SetUpError."""
        columns_of(self._descriptor)
        handler(self.message.name, self.message.files, "int32")

    @property
    def _descriptor(self) -> Any:
        return descriptor_of(self.message.name, self.message.files)

    @property
    def fields(self) -> tuple[str, ...]:
        """Return the names of the message's fields."""
        return tuple(each.name for each in self._descriptor.fields)

    def check(self, columns: pa.Schema) -> None:
        """See `Encoder`."""
        check(self._descriptor, columns)

    def agree(self, columns: pa.Schema) -> None:
        """See `Encoder`."""
        if self.subject is not None:
            agreed(self.subject, self._offered())

    def encoded(self, rows: pa.RecordBatch) -> Encoded:
        """See `Encoder`."""
        head, descriptor = b"", self._descriptor
        if self.subject is not None:
            head = framing(id_of(self.subject, self._offered())) + place_of(descriptor)
        made = handler(self.message.name, self.message.files, "int32")

        def write(some: pa.RecordBatch) -> pa.Array:
            messages = made.record_batch_to_array(shaped(some, descriptor))
            ends = [pa.scalar(each, pa.binary()) for each in (head, b"")]
            return pc.binary_join_element_wise(ends[0], messages, ends[1]) if head else messages

        try:
            return Encoded(values=write(rows))
        except ValueError:
            return rows_apart(rows, doubtful(rows, descriptor), write)

    def _offered(self) -> Offered:
        return _offered(self._descriptor.file)


def _offered(file: Any) -> Offered:
    named = [each for each in file.dependencies if not each.name.startswith(KNOWN)]
    return Offered(
        kind="PROTOBUF",
        text=base64.b64encode(file.serialized_pb).decode(),
        references=tuple((each.name, _offered(each)) for each in named),
    )
