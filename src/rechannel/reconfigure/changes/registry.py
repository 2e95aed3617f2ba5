"""The registry of changes: from it come the Python names, the command line, HTTP bodies, OpenAPI and the docs tables.

A change is one class, decorated with `@registered`, in a file of this package:

    @registered
    @dataclass(frozen=True, slots=True)
    class SetInterval(Change):
        \"\"\"Set the distance between timestep starts.\"\"\"

        kind = "set_interval"

        interval_ms: Annotated[int, Meta(ge=0, description="Milliseconds."), Cli(argument=True)]

        def resolved(self, configuration, facts):
            return replace(configuration, interval_ms=self.interval_ms)

Its kind is its name in Python (`rc.changes.set_interval(500)`) and in JSON (`{"kind": "set_interval", ...}`), and with
hyphens its command (`rechannel reconfigure URL set-interval 500ms`). A function decorated with `@in_python` takes the
place of the class in Python where users write other arguments than the fields, or where the change holds functions and
has no JSON form at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from rechannel.errors import RefusedError
from rechannel.model.codec import form
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.checked import Kinds

C = TypeVar("C", bound=Change)
F = TypeVar("F", bound=Callable[..., Any])

KINDS: Kinds[Change] = Kinds("change")
"""Every kind of change that has a JSON form."""

_FUNCTIONS: dict[str, Callable[..., Any]] = {}


def registered(kind: type[C]) -> type[C]:
    """Add a change to the registry; a class decorator."""
    return KINDS.register(kind)


def in_python(function: F) -> F:
    """Make a function what Python users call for the change of its name; a decorator."""
    _FUNCTIONS[function.__name__] = function
    return function


def requestable() -> tuple[type[Change], ...]:
    """Changes that can be requested from outside the driver's process: over HTTP and on the command line."""
    return tuple(kind for kind in KINDS if kind.requestable)


def python_names() -> Mapping[str, Callable[..., Any]]:
    """What `rc.changes` offers, by name."""
    return {kind.kind: kind for kind in requestable()} | _FUNCTIONS


def requested(data: Any) -> Change:
    """Read a change that was requested from outside. Raises RefusedError for one that cannot be."""
    change = KINDS.read(data)
    if not change.requestable:
        msg = f"{change.kind} cannot be requested from outside the program"
        raise RefusedError(msg)
    return change


form(Change, encode=lambda change: change.to_json(), decode=KINDS.read)
