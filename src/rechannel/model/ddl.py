"""Column lists as text: Spark's DDL as Arrow schemas, and Arrow types in Spark's words.

The parser understands what names a column and its type: `name [:] TYPE [NOT NULL] [COMMENT
'text']`, separated by commas. Types are mapped as in Spark's Arrow exchange; timestamps are
microseconds in UTC. No session is needed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.model.decoded import decoded_schema

_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<word>\w+)|(?P<text>'(?:[^'\\]|\\.|'')*')|(?P<mark>[<>(),:]))"
)

UTC_TIMESTAMP = pa.timestamp("us", tz="UTC")

_SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": UTC_TIMESTAMP,
    "timestamp_ltz": UTC_TIMESTAMP,
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}

_WORDS: dict[pa.DataType, str] = {
    kind: word
    for word, kind in _SIMPLE.items()
    if word not in {"byte", "short", "integer", "long", "real", "timestamp_ltz"}
}


def schema_of(columns: object) -> pa.Schema:
    """Return the schema of columns given as an Arrow schema, as Spark DDL text, or as a Spark
    `StructType`.

    Raises DataflowError if the text cannot be read or names a column twice.
    """
    if isinstance(columns, pa.Schema):
        schema = decoded_schema(columns.remove_metadata())
    elif isinstance(columns, str):
        schema = pa.schema(_Parser.of(columns).columns(closing=None))
    elif callable(describe := getattr(columns, "simpleString", None)):
        schema = _of_struct(str(describe()))
    else:
        msg = (
            f"columns must be a pyarrow.Schema or text such as 'n BIGINT, name STRING', "
            f"not {type(columns).__name__}"
        )
        raise DataflowError(msg)
    twice = {name for name in schema.names if schema.names.count(name) > 1}
    if twice:
        msg = f"column {min(twice)!r} is declared twice; every column needs its own name"
        raise DataflowError(msg)
    alike = alike_but_for_case(schema.names)
    if alike is not None:
        msg = f"columns {alike[0]!r} and {alike[1]!r} differ in case only, which Spark ignores; rename one of them"
        raise DataflowError(msg)
    return schema


def alike_but_for_case(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the first two names that differ in case only, which Spark does not distinguish; None
    otherwise.
    """
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            return other, name
    return None


def type_name(kind: pa.DataType) -> str:
    """Return the name of an Arrow type in Spark's words, or Arrow's own name if Spark has none."""
    if kind in _WORDS:
        return _WORDS[kind]
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_map(kind):
        return f"map<{type_name(kind.key_type)},{type_name(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if pa.types.is_struct(kind):
        if any(b"variant" in (field.metadata or {}) for field in kind.fields):
            return "variant"
        fields = (kind.field(i) for i in range(kind.num_fields))
        return f"struct<{','.join(f'{f.name}:{type_name(f.type)}' for f in fields)}>"
    return str(kind)


def _of_struct(text: str) -> pa.Schema:
    kind = _Parser.of(text).type()
    if not pa.types.is_struct(kind):
        msg = f"columns must be a struct of named fields, not {text!r}"
        raise DataflowError(msg)
    return pa.schema([kind.field(i) for i in range(kind.num_fields)])


@dataclass
class _Parser:
    """Recursive descent over the tokens of one text."""

    text: str
    tokens: list[tuple[str, str, int]] = field(default_factory=list)
    at: int = 0

    @classmethod
    def of(cls, text: str) -> _Parser:
        parser, position = cls(text), 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise parser.wrong("a name, a type or a comma", position)
            kind = str(match.lastgroup)
            parser.tokens.append((kind, match.group(kind), match.start(kind)))
            position = match.end()
        return parser

    def wrong(self, expected: str, position: int | None = None) -> DataflowError:
        if position is None:
            position = self.tokens[self.at][2] if self.at < len(self.tokens) else len(self.text)
        shown = f"{self.text[:position]}⟨here⟩{self.text[position:]}"
        return DataflowError(f"cannot read the columns {shown!r}: expected {expected}")

    def peek(self) -> str:
        """Return the next token in lower case; "" at the end. Quoted names keep their quotes."""
        return self.tokens[self.at][1].lower() if self.at < len(self.tokens) else ""

    def take(self, *words: str) -> bool:
        """Consume the given tokens if all of them come next."""
        ahead = [token.lower() for _, token, _ in self.tokens[self.at : self.at + len(words)]]
        if ahead != list(words):
            return False
        self.at += len(words)
        return True

    def need(self, mark: str) -> None:
        if not self.take(mark):
            raise self.wrong(f"{mark!r}")

    def name(self) -> str:
        if self.at < len(self.tokens):
            kind, token, _ = self.tokens[self.at]
            if kind in {"word", "quoted"}:
                self.at += 1
                return token if kind == "word" else token[1:-1].replace("``", "`")
        raise self.wrong("a column name")

    def columns(self, closing: str | None) -> list[pa.Field]:
        """Parse `name TYPE, ...` up to the closing mark, or to the end of the text."""
        fields = [self.column()]
        while self.take(","):
            fields.append(self.column())
        if closing is not None:
            self.need(closing)
        elif self.at < len(self.tokens):
            raise self.wrong("a comma or the end")
        return fields

    def column(self) -> pa.Field:
        name = self.name()
        self.take(":")
        if self.peek() in {"", ","}:
            raise self.wrong(f"a type for column {name!r}, as in '{name} BIGINT'")
        kind = self.type()
        nullable = not self.take("not", "null")
        if self.take("comment"):
            if self.at >= len(self.tokens) or self.tokens[self.at][0] != "text":
                raise self.wrong("the comment's text in single quotes")
            self.at += 1
        return pa.field(name, kind, nullable)

    def type(self) -> pa.DataType:
        word = self.peek()
        if word in _SIMPLE:
            self.at += 1
            return _SIMPLE[word]
        if self.take("decimal") or self.take("dec") or self.take("numeric"):
            precision, scale = self.numbers(10, 0)
            if not 1 <= precision <= 38 or not 0 <= scale <= precision:
                raise self.wrong("a decimal of at most 38 digits")
            return pa.decimal128(precision, scale)
        if self.take("varchar") or self.take("char"):
            self.numbers(0, 0)
            return pa.string()
        if self.take("array", "<"):
            element = self.type()
            self.need(">")
            return pa.list_(element)
        if self.take("map", "<"):
            key = self.type()
            self.need(",")
            value = self.type()
            self.need(">")
            return pa.map_(key, value)
        if self.take("struct", "<"):
            return pa.struct(self.columns(closing=">"))
        raise self.wrong("a type such as BIGINT, DOUBLE, STRING, TIMESTAMP or ARRAY<INT>")

    def numbers(self, first: int, second: int) -> tuple[int, int]:
        """Parse `(p)` or `(p, s)`; return the given defaults if there is no parenthesis."""
        if not self.take("("):
            return first, second
        first, second = self.number(), 0
        if self.take(","):
            second = self.number()
        self.need(")")
        return first, second

    def number(self) -> int:
        if not self.peek().isdecimal():
            raise self.wrong("a number")
        self.at += 1
        return int(self.tokens[self.at - 1][1])


def columns_text(schema: pa.Schema) -> str:
    """Return columns in Spark's words, such as `n bigint, name string`."""
    return ", ".join(f"{field.name} {type_name(field.type)}" for field in schema)
