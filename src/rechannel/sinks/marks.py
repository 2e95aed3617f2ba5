"""Marks: which timestep a place outside of the state directory has, written there together with its rows. Pure.

A place that takes rows and a mark in one atomic step knows by the mark alone what it has. So a repeated publication is
recognised, and so is a state directory that does not know what the place has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rechannel.errors import OtherHistoryError, RefusedError
from rechannel.sinks.batch import Batch
from rechannel.sinks.claims import Ledger


class Mark(NamedTuple):
    """The last timestep that a place has."""

    timestep: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Whose mark it is, and in which words a refusal speaks of the place."""

    where: str
    """As in "topic 'totals' at broker:9092"."""
    name: str
    """Under which the place keeps the mark: it is made of job and sink."""
    elsewhere: str
    """As in "another topic"."""
    stays: str
    """Why `remove_later_output` removes nothing there, as in "records of a topic cannot be removed"."""

    def compared(self, mark: Mark | None, known: Ledger) -> Mark | None:
        """Return the mark if it belongs to another history, over which the user wants to publish; else None.

        Raises RefusedError if it belongs to another history and the user has not said so.
        """
        if mark is None:
            return None
        digest = known.digests.get(mark.timestep)
        differs = bool(digest and mark.digest and digest != mark.digest)
        if mark.timestep <= known.committed and not differs:
            return None
        if not known.remove_later:
            msg = (
                f"{self.where} has timestep {mark.timestep} of {self.name!r}, which this state directory does not know:"
                f" its last commit is timestep {known.committed}, so it was restored from an older copy, or another"
                f" copy of it is running. Write to {self.elsewhere}, restore the newer state directory, or, on purpose,"
                f" publish again what was published since, with start(remove_later_output=True): {self.stays}"
            )
            raise RefusedError(msg)
        return mark

    def is_published(self, mark: Mark | None, batch: Batch) -> bool:
        """Return whether a place with this mark has a timestep.

        Raises OtherHistoryError if it has one of that number that this job has not committed.
        """
        if mark is None or batch.timestep > mark.timestep:
            return False
        differs = batch.digest and mark.digest and mark.digest != batch.digest
        if batch.timestep == mark.timestep and differs:
            msg = (
                f"{self.where} already has a timestep {batch.timestep} of {self.name!r} that is not what this job has"
                f" committed: another copy of the state directory has published it. Write to {self.elsewhere}, or"
                " restore the newer state directory"
            )
            raise OtherHistoryError(msg)
        return True
