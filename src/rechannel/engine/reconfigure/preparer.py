"""The seam between the reconfigurer and what can be prepared before a change begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from rechannel.engine.reconfigure.takeover import Successor
from rechannel.reconfigure.coordination import Now
from rechannel.reconfigure.record import Record
from rechannel.state.manifest import Manifest


class Preparer(Successor, Protocol):
    """Prepares changes. Called in a thread of its own."""

    def prepare(
        self, record: Record, now: Now, manifests: Mapping[str, Manifest]
    ) -> dict[str, Any]:
        """Facts about what was done. Raises RechannelError where the change turns out to be impossible.

        manifests: those of the moment at which each is looked up.
        """

    def last_look(self, record: Record, now: Now, manifests: Mapping[str, Manifest]) -> str | None:
        """Return why a change of the program cannot begin at this timestep boundary, or None. No timestep is in flight.

        Called in the driver's thread. What it raises (StorageError) says "not now" where it passes: it is asked again.
        """

    def ahead(self, record: Record, now: Now, manifests: Mapping[str, Manifest]) -> None:
        """Do what can be done ahead of the next steps of a record that is under way, or begins soon.

        Called in a thread of its own.
        """

    def facts(self, record: Record) -> Mapping[str, Any]:
        """Return all that was prepared for a record, if that is more than `prepare` returned; called at its end."""

    def impossible(self, record: Record) -> str | None:
        """Why this driver cannot make a change that has not begun, or None."""

    def finished(self, record: Record) -> None:
        """A record is over: free what was prepared, let go what is not needed any more."""

    def places(self) -> Mapping[str, Mapping[int, str]]:
        """By operator, the executor of every task that is placed."""


class Latest(Mapping[str, Manifest]):
    """Manifests as they are whenever one is asked for: a preparation takes a while, and timesteps go on."""

    def __init__(self, manifests: Callable[[], Mapping[str, Manifest]]) -> None:
        """manifests: of all operators, as of now; called from the preparation's thread."""
        self._manifests = manifests

    def __getitem__(self, operator: str) -> Manifest:
        """Of one operator. Raises KeyError."""
        return self._manifests()[operator]

    def __iter__(self) -> Iterator[str]:
        """Names of operators."""
        return iter(tuple(self._manifests()))

    def __len__(self) -> int:
        """How many operators there are."""
        return len(self._manifests())


class NothingToPrepare:
    """For engines in which a change costs nothing ahead."""

    application = ""

    def recovered(self, executors: int) -> None:
        """There are none to ask for."""

    def prepare(
        self, record: Record, now: Now, manifests: Mapping[str, Manifest]
    ) -> dict[str, Any]:
        """Nothing is done."""
        del record, now, manifests
        return {}

    def last_look(self, record: Record, now: Now, manifests: Mapping[str, Manifest]) -> str | None:
        """Nothing can be wrong."""
        del record, now, manifests
        return None

    def ahead(self, record: Record, now: Now, manifests: Mapping[str, Manifest]) -> None:
        """Nothing is done."""

    def facts(self, record: Record) -> Mapping[str, Any]:
        """There is nothing to tell."""
        del record
        return {}

    def impossible(self, record: Record) -> str | None:
        """Everything can be taken up but what only the driver before had in its memory."""
        del record
        return None

    def finished(self, record: Record) -> None:
        """Nothing is held."""

    def places(self) -> Mapping[str, Mapping[int, str]]:
        """Tasks are wherever they are."""
        return {}
