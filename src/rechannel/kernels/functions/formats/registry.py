"""Schema registries: which schema an id stands for.

A schema never changes under its id, so each worker asks for it once. Only the registry's own answer that it has no such
schema makes records unreadable; anything else that is not the schema (no connection, an overload, an answer of a proxy)
fails the timestep, which runs again. What is unknown is asked for again after a while: a registry can be late.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rechannel.errors import DataflowError, NotPermittedError, SetUpError, StorageError

SCHEMAS = 1_000
"""Schemas that a worker keeps, of each registry."""
CLIENTS = 8
"""Registries that a worker keeps connections to."""
UNKNOWN_S = 30.0
"""For how long an unknown id is not asked for again."""
RETRIES = 3
NOT_FOUND = 40403
"""What a registry answers for an id that it does not have."""
OURS = {
    "url": "give it as the first argument",
    "timeout": "give wait_s=",
    "max.retries": "the driver runs the timestep again",
}
MISSING = "a schema registry needs its client: pip install 'rechannel[formats]', on every executor"


@dataclass(frozen=True, kw_only=True)
class Registry:
    """A schema registry as a value. What a dataflow does is the same wherever its registry is."""

    url: str
    wait_s: float = 10.0
    """For how long one request waits."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of confluent-kafka's client: basic.auth.user.info or ssl.ca.location, for example."""

    def __post_init__(self) -> None:
        """Check what can be checked without the registry. Raises DataflowError, SetUpError."""
        if not self.url.startswith(("http://", "https://")):
            raise DataflowError(f"schema registry {self.url!r}: give a URL, as in http://host:8081")
        if not self.wait_s > 0:
            raise DataflowError(f"schema registry: wait_s must be above 0, not {self.wait_s}")
        for name in self.options.keys() & OURS.keys():
            raise DataflowError(f"schema registry: option {name!r} cannot be set: {OURS[name]}")
        _client_package()

    def digested(self) -> tuple[str, Mapping[str, Any]]:
        """Leave address and passwords out of what identifies a program."""
        return "rechannel.kernels.functions.formats.registry:Registry", {}


@dataclass(frozen=True, kw_only=True)
class Written:
    """A schema as the registry has it."""

    kind: str
    """AVRO, PROTOBUF or JSON."""
    text: str
    references: tuple[Written, ...] = ()
    """Schemas that it names, each after those that it names itself."""


class Schemas:
    """Asks one registry, and keeps what it says."""

    def __init__(self, ask: Callable[[int], Written | None], clock: Callable[[], float]) -> None:
        """ask: id -> the schema; None if there is none. clock: seconds."""
        self._ask, self._clock = ask, clock
        self._known: OrderedDict[int, Written] = OrderedDict()
        self._unknown: OrderedDict[int, float] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, schema_id: int) -> Written | None:
        """Return a schema; None if there is none. Raises StorageError without an answer."""
        with self._lock:
            known = self._known.get(schema_id)
            asked_s = self._unknown.get(schema_id)
            if known is not None:
                self._known.move_to_end(schema_id)
                return known
            if asked_s is not None and self._clock() - asked_s < UNKNOWN_S:
                return None
        found = self._ask(schema_id)
        with self._lock:
            self._unknown.pop(schema_id, None)
            if found is None:
                self._unknown[schema_id] = self._clock()
            else:
                self._known[schema_id] = found
            for kept in (self._known, self._unknown):
                while len(kept) > SCHEMAS:
                    kept.popitem(last=False)
        return found


_Key = tuple[str, float, tuple[tuple[str, str], ...], str]
_LOCK = threading.Lock()
_KEPT: OrderedDict[_Key, Schemas] = OrderedDict()


def schemas(registry: Registry, form: str = "") -> Schemas:
    """Return this worker's view of a registry. form: in which schemas are asked for; empty = unchanged."""
    key = (registry.url, registry.wait_s, tuple(sorted(registry.options.items())), form)
    with _LOCK:
        if key not in _KEPT:
            _KEPT[key] = Schemas(_Client(registry, form).schema, time.monotonic)
        _KEPT.move_to_end(key)
        while len(_KEPT) > CLIENTS:
            _KEPT.popitem(last=False)
        return _KEPT[key]


def client(registry: Registry) -> tuple[Any, Any]:
    """Return the package of the public client, and a client."""
    package = _client_package()
    said = {"timeout": registry.wait_s, "max.retries": RETRIES, "url": registry.url}
    return package, package.SchemaRegistryClient({**registry.options, **said})


class _Client:
    """The public client, with its errors told apart."""

    def __init__(self, registry: Registry, form: str) -> None:
        self._registry, self._form = registry, form or None
        self._of, self._client = client(registry)

    def schema(self, schema_id: int) -> Written | None:
        """Return a schema with what it names; None if there is none."""
        found = self._asked(lambda: self._client.get_schema(schema_id, fmt=self._form))
        if found is None:
            return None
        named = list[Written]()
        self._references(found, named, set())
        return Written(
            kind=found.schema_type or "AVRO", text=found.schema_str, references=tuple(named)
        )

    def _references(self, schema: Any, named: list[Written], seen: set[tuple[str, int]]) -> None:
        for each in schema.references or ():
            if (each.subject, each.version) in seen:
                continue
            seen.add((each.subject, each.version))
            found = self._asked(partial(self._client.get_version, each.subject, each.version))
            if found is None:
                raise StorageError(
                    f"the schema registry at {self._registry.url} has no version {each.version} of"
                    f" {each.subject!r}, which one of its schemas names"
                )
            self._references(found.schema, named, seen)
            named.append(
                Written(kind=found.schema.schema_type or "AVRO", text=found.schema.schema_str)
            )

    def _asked(self, ask: Callable[[], Any]) -> Any:
        where = f"the schema registry at {self._registry.url}"
        try:
            return ask()
        except self._of.SchemaRegistryError as error:
            if error.error_code == NOT_FOUND:
                return None
            if error.http_status_code in (401, 403):
                raise NotPermittedError(f"{where} refuses: {error}. Give its options") from error
            raise StorageError(f"{where} does not give a schema: {error}") from error
        except Exception as error:  # of the HTTP client, whichever it is
            raise StorageError(f"{where} does not answer: {error!r}") from error


def _client_package() -> Any:
    try:
        from confluent_kafka import schema_registry
    except ImportError as error:
        raise SetUpError(MISSING) from error
    return schema_registry
