"""What the stored state of an operator is, as a value that the journal keeps.

A program that takes over at a start cannot ask the program before it, whose text is gone. What decides whether state
can be carried over, and how, is therefore described in words and schemas, without a function.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from rechannel.dataflow.identity.digests import digest_of
from rechannel.kernels.protocol.logic import AggregateFunction, StatefulLogic
from rechannel.kernels.protocol.migrate import fingerprint
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.model.codec import Json
from rechannel.model.schema_text import schema_from_text, schema_text
from rechannel.operators.aggregate.logic import AggregateLogic, Bound, KeepsAggregates

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")

_OPAQUE = "?"
"""Digest of a function that holds what no digest shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeout:
    """How keys end."""

    timeout_ms: int | None
    """After how long without rows; None = never."""
    keeps_timers: bool
    """Whether state has the time at which each key ends, not only the time of its last rows."""
    ends_noted: bool
    """Whether stored state is looked for keys that end, for a changelog that reports them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAggregate:
    """One aggregate, and its columns of the state."""

    name: str
    """Of the result."""
    function: str
    """What computes it, as it is written."""
    digest: str = ""
    """Of the function, if how it is written does not tell it from others."""
    fields: tuple[pa.Field, ...] = ()
    """Its input columns."""
    columns: tuple[str, ...] = ()
    """Its columns of the state."""
    bound: Bound | None = field(default=None, compare=False)
    """What computes it; None of a program whose text is gone."""

    @classmethod
    def of(cls, one: Bound, state: pa.Schema) -> KeptAggregate:
        """Describe an aggregate. state: columns of the operator."""
        written, digest = _written(one.function)
        return cls(
            name=one.name,
            function=written,
            digest=digest,
            fields=one.fields,
            columns=tuple(state.names[one.state]),
            bound=one,
        )

    @property
    def names(self) -> frozenset[str]:
        """Return its name and those of its columns: users may say either."""
        return frozenset({self.name, *self.columns})

    def same_way(self, other: KeptAggregate, *, retyped: bool = False) -> bool:
        """Return whether both make the same of the same values. retyped: other types are intended."""
        if _OPAQUE in {self.digest, other.digest}:
            one, two = self.bound, other.bound
            return one is not None and two is not None and one.function is two.function
        same = (self.function, self.digest) == (other.function, other.digest)
        return same and (retyped or [f.type for f in self.fields] == [f.type for f in other.fields])


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """Everything about stored state on which depends whether other logic can take it over."""

    kind: str
    """One word for what the state is: logic of the same kind may take it over."""
    key_schema: pa.Schema
    state_schema: pa.Schema
    timeout: Timeout | None = None
    """None = keys do not end by themselves."""
    aggregates: tuple[KeptAggregate, ...] | None = None
    """The aggregates, if they are all the state there is."""
    shapes: Mapping[str, str] | None = None
    """What named states are, if each stored row belongs to one of them: see `Succeeded.state_shapes`."""

    @classmethod
    def of(cls, logic: StatefulLogic) -> Description:
        """Describe the state that logic keeps."""
        able = Capabilities(logic)
        timing, kept = able.timing_out, aggregates_of(logic)
        return cls(
            kind=able.state_kind,
            key_schema=logic.key_schema,
            state_schema=logic.state_schema,
            timeout=None
            if timing is None
            else Timeout(
                timeout_ms=timing.timeout_ms,
                keeps_timers=timing.keeps_timers,
                ends_noted=timing.ends_noted,
            ),
            aggregates=None
            if kept is None
            else tuple(KeptAggregate.of(one, kept.state_schema) for one in kept.aggregates),
            shapes=able.state_shapes,
        )

    @property
    def columns(self) -> str:
        """Return the fingerprint of key and state columns, as segments name them."""
        return fingerprint(self.key_schema, self.state_schema)

    @property
    def noted_timeout(self) -> int | None:
        """Return the timeout by which stored state is looked for keys that end, in ms; None = it is not."""
        found = self.timeout
        return found.timeout_ms if found is not None and found.ends_noted else None

    def to_json(self) -> dict[str, Json]:
        """Return plain JSON values."""
        shapes = {} if self.shapes is None else {"shapes": dict(self.shapes)}
        return shapes | {
            "kind": self.kind,
            "keys": schema_text(self.key_schema),
            "state": schema_text(self.state_schema),
            "timeout": None
            if self.timeout is None
            else {
                "timeout_ms": self.timeout.timeout_ms,
                "keeps_timers": self.timeout.keeps_timers,
                "ends_noted": self.timeout.ends_noted,
            },
            "aggregates": None
            if self.aggregates is None
            else [
                {
                    "name": one.name,
                    "function": one.function,
                    "digest": one.digest,
                    "fields": schema_text(pa.schema(one.fields)),
                    "columns": list(one.columns),
                }
                for one in self.aggregates
            ],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Description:
        """Invert `to_json`; the aggregates have no functions then."""
        aggregates = data["aggregates"]
        return cls(
            kind=data["kind"],
            key_schema=schema_from_text(data["keys"]),
            state_schema=schema_from_text(data["state"]),
            timeout=None if data["timeout"] is None else Timeout(**data["timeout"]),
            aggregates=None if aggregates is None else tuple(map(_aggregate, aggregates)),
            shapes=data.get("shapes"),
        )


Described: TypeAlias = Description | StatefulLogic
"""State as it is described, or what keeps it."""


def described(state: Described) -> Description:
    """Return the description of state."""
    return state if isinstance(state, Description) else Description.of(state)


def aggregates_of(logic: StatefulLogic) -> AggregateLogic | None:
    """The aggregates that are all the state there is of an operator, None where it has other state."""
    return logic.kept_aggregates if isinstance(logic, KeepsAggregates) else None


def _aggregate(data: Mapping[str, Json]) -> KeptAggregate:
    return KeptAggregate(
        name=data["name"],
        function=data["function"],
        digest=data["digest"],
        fields=tuple(schema_from_text(data["fields"])),
        columns=tuple(data["columns"]),
    )


def _written(function: AggregateFunction) -> tuple[str, str]:
    """Return how a function is written, and its digest if that does not tell it from others."""
    text = repr(function)
    plain = _ADDRESS.sub("", text)
    if plain == text:
        return plain, ""
    digest = digest_of(function)
    return plain, digest.text if digest.complete else _OPAQUE
