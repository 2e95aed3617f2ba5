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
        """Prepare a change; returns facts about what was done. Raises RechannelError if the change is impossible.

        manifests: always the present ones (`LiveManifests`).
        """

    def check_at_boundary(
        self, record: Record, now: Now, manifests: Mapping[str, Manifest]
    ) -> str | None:
        """Return why a change of the program cannot begin at this timestep boundary, or None. No timestep is in flight.

        Called in the driver's thread. A StorageError that may pass means "not now": the driver calls again.
        """

    def prepare_next_steps(
        self, record: Record, now: Now, manifests: Mapping[str, Manifest]
    ) -> None:
        """Prepare the next steps of a record that is under way or begins soon.

        Called in a thread of its own.
        """

    def final_facts(self, record: Record) -> Mapping[str, Any]:
        """Return facts about all that was prepared for a record that ends, if more than `prepare` returned."""

    def impossible(self, record: Record) -> str | None:
        """Why this driver cannot make a change that has not begun, or None."""

    def release(self, record: Record) -> None:
        """Release what was prepared for a record that is over, and resources that are no longer needed."""

    def places(self) -> Mapping[str, Mapping[int, str]]:
        """Return the executor of each placed task, by operator."""

    def close(self) -> None:
        """End what is being prepared, soon: the driver ends. Called in another thread."""


class LiveManifests(Mapping[str, Manifest]):
    """The present manifests at each lookup, because timesteps go on while a change is prepared."""

    def __init__(self, manifests: Callable[[], Mapping[str, Manifest]]) -> None:
        """manifests: of all operators, as of now; called from the preparation's thread."""
        self._manifests = manifests

    def __getitem__(self, operator: str) -> Manifest:
        """The manifest of one operator. Raises KeyError."""
        return self._manifests()[operator]

    def __iter__(self) -> Iterator[str]:
        """Names of operators."""
        return iter(tuple(self._manifests()))

    def __len__(self) -> int:
        """How many operators there are."""
        return len(self._manifests())


class NothingToPrepare:
    """A preparer for engines in which no change needs preparation."""

    application = ""

    def close(self) -> None:
        """Do nothing: nothing is being prepared."""

    def restore_executors(self, executors: int) -> None:
        """Do nothing: there are no executors to request."""

    def prepare(
        self, record: Record, now: Now, manifests: Mapping[str, Manifest]
    ) -> dict[str, Any]:
        """Do nothing."""
        del record, now, manifests
        return {}

    def check_at_boundary(
        self, record: Record, now: Now, manifests: Mapping[str, Manifest]
    ) -> str | None:
        """Return None: nothing can be wrong."""
        del record, now, manifests
        return None

    def prepare_next_steps(
        self, record: Record, now: Now, manifests: Mapping[str, Manifest]
    ) -> None:
        """Do nothing."""

    def final_facts(self, record: Record) -> Mapping[str, Any]:
        """Return no facts."""
        del record
        return {}

    def impossible(self, record: Record) -> str | None:
        """Return None: this driver can make every change."""
        del record
        return None

    def release(self, record: Record) -> None:
        """Do nothing: nothing was prepared."""

    def places(self) -> Mapping[str, Mapping[int, str]]:
        """Return nothing: no task is placed."""
        return {}
