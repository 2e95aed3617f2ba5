"""The operators of a stream that read columns from records, and write columns as records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from rechannel.dataflow.checks.dead import has_dead_letters
from rechannel.dataflow.graph.naming import caller
from rechannel.dataflow.graph.nodes import Node
from rechannel.dataflow.graph.schema import known
from rechannel.errors import DataflowError
from rechannel.kernels.functions.dead_letters import PLACE, OnError
from rechannel.kernels.functions.formats.avro.encoder import AvroEncoder
from rechannel.kernels.functions.formats.decode import Decode
from rechannel.kernels.functions.formats.encode import Encode
from rechannel.kernels.functions.formats.encoder import Encoder
from rechannel.kernels.functions.formats.format import Format
from rechannel.kernels.functions.formats.json import Json
from rechannel.kernels.functions.formats.json_encoder import JsonEncoder
from rechannel.kernels.functions.formats.protobuf.encoder import ProtobufEncoder
from rechannel.kernels.functions.formats.protobuf.types import Message
from rechannel.kernels.functions.formats.registry import Registry
from rechannel.kernels.functions.formats.subjects import Subject, subject_of
from rechannel.kernels.protocol.program import BatchFunction
from rechannel.model.ddl import schema_of

if TYPE_CHECKING:
    from rechannel.dataflow.streams.stream import Stream

Columns: TypeAlias = pa.Schema | str
"""Columns as an Arrow schema or as Spark DDL text."""


class Formatted:
    """The operators of `Stream` that know formats of records."""

    __slots__ = ()

    if TYPE_CHECKING:
        node: Node

        def _batches(
            self,
            function: BatchFunction,
            schema: pa.Schema | None,
            name: str | None,
            kind: str = "map_batches",
        ) -> Stream:
            """Make a stream of what a function makes of batches."""

    def decode(
        self,
        format: Format,  # noqa: A002 - the word for it
        *,
        column: str = "value",
        keep: Iterable[str] = (),
        on_error: OnError = "fail",
        name: str | None = None,
    ) -> Stream:
        """Read columns from records, such as the values of Kafka's: JSON, Avro, Protobuf.

        A null is a row of nulls.

        Args:
            format: of `rc.formats`.
            column: where the records are, as text or binary.
            keep: columns of the stream that stay beside the new ones.
            on_error: "fail" = a value that cannot be read fails the timestep; "dead_letter" = it is in
                `.dead_letters`, with the first 64 KiB of it, and topic, partition and offset if the stream has them.
            name: of the node.
        """
        return self._decode("decode", format, column, keep, on_error, name)

    def decode_json(
        self,
        schema: Columns,
        *,
        column: str = "value",
        keep: Iterable[str] = (),
        on_error: OnError = "fail",
        name: str | None = None,
    ) -> Stream:
        """Read columns from JSON objects: `decode(rc.formats.json(schema))`.

        Members that `schema` lacks are ignored, missing ones are null, and a null object is a row of nulls. Dates are
        texts such as "2026-01-31", and bytes are base64. A text is no number, nor are "NaN" and "Infinity".

        Args:
            schema: columns to read, without maps: a STRUCT has the members of an object that are needed.
            column: where the objects are, as text or binary.
            keep: columns of the stream that stay beside them.
            on_error: as in `decode`.
            name: of the node.

        Raises DataflowError that names a column which cannot be read from JSON.
        """
        made = Json(schema=schema_of(schema))
        return self._decode("decode_json", made, column, keep, on_error, name)

    def encode_json(
        self,
        *,
        columns: Iterable[str] | None = None,
        column: str = "value",
        keep: Iterable[str] = (),
        on_error: OnError = "fail",
        name: str | None = None,
    ) -> Stream:
        """Write each row as a JSON object, as `write.kafka` does without value=. Nulls are left out.

        Args:
            columns: which become members; None = all.
            column: of the result, where the objects are, as text.
            keep: columns of the stream that stay beside it, such as one for the records' keys.
            on_error: "fail" = a row that cannot be written fails the timestep; "dead_letter" = it is in
                `.dead_letters`.
            name: of the node.
        """
        return self._encode(
            "encode_json",
            JsonEncoder(),
            columns=columns,
            column=column,
            keep=keep,
            on_error=on_error,
            name=name,
        )

    def encode_avro(  # noqa: PLR0913 - what users may say of records
        self,
        schema: str | Mapping[str, Any] | None = None,
        *,
        registry: Registry | str | None = None,
        topic: str = "",
        subject: str = "",
        register: bool = False,
        record: str = "Record",
        columns: Iterable[str] | None = None,
        column: str = "value",
        keep: Iterable[str] = (),
        on_error: OnError = "fail",
        name: str | None = None,
    ) -> Stream:
        """Write each row as a record of Apache Avro.

        The driver looks the schema up, or registers it, before any work starts.

        Args:
            schema: the writer's, as JSON or its text: a field for each column that is written; fields without a column
                need a default. None = the one that `rc.formats.avro_schema` makes of the columns.
            registry: has the schema, whose id the values then begin with; None = values are records alone.
            topic: whose values they are: the subject is "topic-value", or "topic-key" if `column` is "key".
            subject: in place of topic: the subject itself.
            register: True = a schema that the subject lacks is registered; False = the job is then refused.
            record: name of the record, if there is no schema=.
            columns: which become fields; None = those of the schema, or all.
            column: of the result, where the records are, as binary.
            keep: as in `encode_json`.
            on_error: as in `encode_json`: a null in a field without nulls, an unknown symbol, too many digits.
            name: of the node.

        Raises DataflowError that names a column that does not fit its field, SetUpError.
        """
        text = schema if schema is None or isinstance(schema, str) else json.dumps(schema)
        where = _subject(registry, topic, subject, column, register=register)
        made = AvroEncoder(schema=text, record=record, subject=where)
        return self._encode(
            "encode_avro",
            made,
            columns=columns,
            column=column,
            keep=keep,
            on_error=on_error,
            name=name,
        )

    def encode_protobuf(  # noqa: PLR0913 - what users may say of records
        self,
        message: type,
        *,
        registry: Registry | str | None = None,
        topic: str = "",
        subject: str = "",
        register: bool = False,
        columns: Iterable[str] | None = None,
        column: str = "value",
        keep: Iterable[str] = (),
        on_error: OnError = "fail",
        name: str | None = None,
    ) -> Stream:
        """Write each row as a message of Protocol Buffers. A null is a field that is absent.

        Args:
            message: the class that protoc has generated, with a field for each column that is written.
            registry: has the file of the message, whose id the values then begin with; None = values are messages
                alone.
            topic: as in `encode_avro`.
            subject: as in `encode_avro`.
            register: as in `encode_avro`; files that the message's imports are subjects of their own names.
            columns: which become fields; None = those of the message.
            column: of the result, where the messages are, as binary.
            keep: as in `encode_json`.
            on_error: as in `encode_json`: a number out of range, an unknown name of an enum, a null within a list.
            name: of the node.

        Raises DataflowError that names a column that does not fit its field, SetUpError.
        """
        where = _subject(registry, topic, subject, column, register=register)
        made = ProtobufEncoder(message=Message.of(message), subject=where)
        return self._encode(
            "encode_protobuf",
            made,
            columns=columns,
            column=column,
            keep=keep,
            on_error=on_error,
            name=name,
        )

    def _decode(
        self,
        called: str,
        format: Format,  # noqa: A002
        column: str,
        keep: Iterable[str],
        on_error: OnError,
        name: str | None,
    ) -> Stream:
        has_dead_letters(called, on_error)
        if not isinstance(format, Format):
            msg = f"{called} ({caller()}) needs a format of rc.formats, not {format!r}"
            raise DataflowError(msg)
        schema = known(self.node)
        names = () if schema is None else schema.names
        place = tuple(each for each in PLACE if each in names)
        function = Decode(
            format=format, column=column, keep=tuple(keep), place=place, on_error=on_error
        )
        return self._batches(function, None, name, called)

    def _encode(
        self,
        called: str,
        encoder: Encoder,
        *,
        columns: Iterable[str] | None,
        column: str,
        keep: Iterable[str],
        on_error: OnError,
        name: str | None,
    ) -> Stream:
        has_dead_letters(called, on_error)
        function = Encode(
            encoder=encoder,
            column=column,
            columns=None if columns is None else tuple(columns),
            keep=tuple(keep),
            on_error=on_error,
        )
        return self._batches(function, None, name, called)


def _subject(
    registry: Registry | str | None, topic: str, subject: str, column: str, *, register: bool
) -> Subject | None:
    if registry is None:
        if topic or subject or register:
            raise DataflowError(
                "topic=, subject= and register= need registry=: give it, or leave them out"
            )
        return None
    of = Registry(url=registry) if isinstance(registry, str) else registry
    return Subject(registry=of, name=subject_of(topic, subject, column), register=register)
