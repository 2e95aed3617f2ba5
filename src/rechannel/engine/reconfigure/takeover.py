"""What a driver does with the Configuration of the previous driver.

It requests the same number of executors. If the Configuration places tasks on executors of another Spark application,
whose ids mean nothing here, those tasks lose their placement; so do open changes, when they are resumed.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Protocol

from rechannel.engine.journal.entries import ConfigurationChanged, Note
from rechannel.engine.journal.log import Journal
from rechannel.engine.program.position import StreamPosition
from rechannel.logs import fields
from rechannel.model.configuration import Configuration

_LOG = logging.getLogger("rechannel")

APPLICATION = "application"
"""Kind of the note that holds the application whose executors the Configuration names."""


class Successor(Protocol):
    """Gives a driver its executors."""

    @property
    def application(self) -> str:
        """Id of the application whose executors these are; empty if there are none."""

    def restore_executors(self, executors: int) -> None:
        """Request as many executors as the previous driver had, if the cluster accepts that."""


def is_other_application(journal: Journal, successor: Successor) -> bool:
    """Whether the journal names executors of another application; not any more after `note_application`."""
    return successor.application not in {"", journal.state.notes.get(APPLICATION)}


def take_over(journal: Journal, successor: Successor, position: StreamPosition) -> Configuration:
    """Return the Configuration from the next timestep on. If it differs from the previous one, it is journalled."""
    configuration = position.configuration
    if configuration.executors is not None:
        successor.restore_executors(configuration.executors)
    if not journal.state.configurations or not is_other_application(journal, successor):
        return configuration  # a new journal has none: this driver made the Configuration
    return _journal_unplaced(journal, configuration, position.timestep, successor.application)


def note_application(journal: Journal, successor: Successor) -> None:
    """Journal that executors are from now on those of this application."""
    if is_other_application(journal, successor):
        journal.append(Note(kind=APPLICATION, body=successor.application))


def _journal_unplaced(
    journal: Journal, before: Configuration, timestep: int, here: str
) -> Configuration:
    after = without_places(before)
    if after is before:
        return before
    placed = {name: dict(op.placement) for name, op in before.operators.items() if op.placement}
    _LOG.warning(
        "tasks lose their placement: %s are executors of another application",
        placed,
        extra=fields("placement_lost"),
    )
    cause = f"executors are those of {here} now"
    changed = ConfigurationChanged(from_timestep=timestep, configuration=after, cause=cause)
    journal.append(changed)
    return after


def without_places(configuration: Configuration) -> Configuration:
    """The Configuration without placements: its next version if there were any, else the same."""
    operators = configuration.operators
    if not any(operator.placement for operator in operators.values()):
        return configuration
    free = {name: replace(operator, placement={}) for name, operator in operators.items()}
    return replace(configuration, version=configuration.version + 1, operators=free)
