"""Subjects of schema registries: under which id records say that they are written.

The driver looks a schema up, or registers it, before any work starts. A worker looks up what the driver has found, once
for each schema.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rechannel.errors import DataflowError, NotPermittedError, RefusedError, StorageError
from rechannel.kernels.functions.formats.registry import SCHEMAS, Registry, client

ABSENT = (40401, 40403)
"""What a registry answers for a subject, and for a schema of a subject, that it does not have."""
INCOMPATIBLE, INVALID = 409, (42201, 422)
REASON = 400
"""Characters of what a registry says that are shown."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A subject of a registry, as a value."""

    registry: Registry
    name: str
    register: bool = False
    """Whether a schema that it lacks is registered."""

    def __post_init__(self) -> None:
        """Check the name. Raises DataflowError."""
        if not self.name.strip():
            raise DataflowError(
                "with a registry, give topic=, so that the subject is the topic's, or subject="
            )

    def digested(self) -> tuple[str, Mapping[str, Any]]:
        """Leave the registry out of what identifies a program, and whether the driver registers."""
        return "rechannel.kernels.functions.formats.subjects:Subject", {"name": self.name}

    @property
    def where(self) -> str:
        """What people read."""
        return f"subject {self.name!r} of the schema registry at {self.registry.url}"


@dataclass(frozen=True, kw_only=True)
class Offered:
    """A schema as it is given to a registry."""

    kind: str
    """AVRO or PROTOBUF."""
    text: str
    references: tuple[tuple[str, Offered], ...] = ()
    """Schemas that it names, each by the name that is also its subject."""


def subject_of(topic: str, subject: str, column: str) -> str:
    """Return the name of a subject: `subject`, or that of a topic's values or, in a column "key", of its keys."""
    if topic and subject:
        raise DataflowError(
            "topic= says which subject it is, and subject= too: leave one of them out"
        )
    return subject or (topic and f"{topic}-{'key' if column == 'key' else 'value'}")


def agreed(subject: Subject, offered: Offered) -> int:
    """Return the id of a schema under a subject; registers it if the subject says so. For the driver.

    Raises RefusedError, StorageError, NotPermittedError.
    """
    return _Asking(subject, register=subject.register).id_of(subject.name, offered)


_LOCK = threading.Lock()
_KNOWN: OrderedDict[tuple[str, str, Offered], int] = OrderedDict()


def id_of(subject: Subject, offered: Offered) -> int:
    """Return the id of a schema that the driver has found. For workers. Raises StorageError, NotPermittedError."""
    key = (subject.registry.url, subject.name, offered)
    with _LOCK:
        if key in _KNOWN:
            _KNOWN.move_to_end(key)
            return _KNOWN[key]
    try:
        found = _Asking(subject, register=False).id_of(subject.name, offered)
    except RefusedError as error:  # the driver has seen it: it is late, or was deleted since
        raise StorageError(str(error)) from error
    with _LOCK:
        _KNOWN[key] = found
        while len(_KNOWN) > SCHEMAS:
            _KNOWN.popitem(last=False)
    return found


class _Asking:
    """Asks the public client, with its errors told apart."""

    def __init__(self, subject: Subject, *, register: bool) -> None:
        self._subject, self._register = subject, register
        self._of, self._client = client(subject.registry)

    def id_of(self, name: str, offered: Offered) -> int:
        found: int = self._asked(name, offered).schema_id
        return found

    def _asked(self, name: str, offered: Offered) -> Any:
        named = [self._reference(*each) for each in offered.references]
        schema = self._of.Schema(offered.text, offered.kind, named)
        where = f"subject {name!r} of the schema registry at {self._subject.registry.url}"
        try:
            if self._register:
                self._client.register_schema(name, schema, normalize_schemas=True)
            return self._client.lookup_schema(name, schema, normalize_schemas=True)
        except self._of.SchemaRegistryError as error:
            raise _meant(error, where, offered.kind) from error
        except Exception as error:  # of the HTTP client, whichever it is
            raise StorageError(f"{where} does not answer: {error!r}") from error

    def _reference(self, name: str, offered: Offered) -> Any:
        version = self._asked(name, offered).version
        return self._of.SchemaReference(name, name, version)


def _meant(error: Any, where: str, kind: str) -> Exception:
    said = " ".join(str(error.error_message).split())[:REASON]
    if error.error_code in ABSENT:
        return RefusedError(
            f"{where} does not have this schema of {kind}: register it there, or give register=True"
        )
    if INCOMPATIBLE in (error.error_code, error.http_status_code):
        return RefusedError(
            f"{where} does not take the schema, which is not compatible with those it has ({said}): give new fields a"
            " default and leave old ones unchanged, or change the subject's compatibility"
        )
    if error.error_code in INVALID:
        return RefusedError(f"{where} finds fault with the schema ({said}): correct the schema")
    if error.http_status_code in (401, 403):
        return NotPermittedError(f"{where} refuses: {said}. Give the registry's options")
    return StorageError(f"{where} does not answer as it should: {said}")
