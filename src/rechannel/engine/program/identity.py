"""Which dataflow a state directory belongs to: `dataflow.json`, written by its first driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from rechannel.errors import MissingFileError, OtherDataflowError
from rechannel.state.keys import IDENTITY
from rechannel.state.sealed import seal, unseal
from rechannel.state.store import Store

FORMAT = 1
"""Version of the format of the state directory as a whole; readers refuse later ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What must not change between two starts on one state directory."""

    name: str
    """Name of the dataflow."""
    operators: Mapping[str, str]
    """Fingerprint of key and state schema by operator; the logic may change."""

    def __post_init__(self) -> None:
        """Freeze the mapping."""
        object.__setattr__(self, "operators", MappingProxyType(dict(self.operators)))

    def check(self, store: Store, *, changed: bool = False) -> None:
        """Check that a state directory is new or belongs to this dataflow, as `claim` does, without writing."""
        try:
            found = read_identity(store)
        except MissingFileError:
            return
        self._check(found, changed=changed)

    def claim(self, store: Store, *, changed: bool = False) -> None:
        """Mark a new state directory as this dataflow's, or check that it belongs to it.

        changed: the operators may have changed while the job ran; the journal has their present fingerprints.
        Raises OtherDataflowError naming what differs, NewerFormatError, DamagedStateError.
        """
        record = {"format": FORMAT, "name": self.name, "operators": dict(self.operators)}
        if not store.create(IDENTITY, seal(record)):
            self._check(read_identity(store), changed=changed)

    def _check(self, found: Identity, *, changed: bool) -> None:
        if found.name != self.name:
            difference = f"dataflow {found.name!r}, not to {self.name!r}"
        elif not changed and found.operators != self.operators:
            names = found.operators.keys() | self.operators.keys()
            others = sorted(n for n in names if found.operators.get(n) != self.operators.get(n))
            difference = f"a {self.name!r} whose operators {others} have other keys or state"
        else:
            return
        msg = (
            f"this state directory belongs to {difference}."
            " Give this dataflow a state directory of its own"
        )
        raise OtherDataflowError(msg)


def read_identity(store: Store) -> Identity:
    """Return which dataflow a state directory belongs to. Raises MissingFileError if no job has claimed it."""
    record: dict[str, Any] = unseal(store.read(IDENTITY), name=IDENTITY, newest=FORMAT)
    return Identity(name=record["name"], operators=record["operators"])
