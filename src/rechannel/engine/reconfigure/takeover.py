"""What a driver makes of the Configuration that the one before left: executors are asked for again, and tasks that were
put on executors of another application, whose ids mean nothing here, are where they may be. What changes that are open
say of such places is forgotten when they are resumed.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Protocol

from rechannel.engine.journal.entries import ConfigurationChanged, Note
from rechannel.engine.journal.log import Journal
from rechannel.engine.program.position import StreamPosition
from rechannel.model.configuration import Configuration

_LOG = logging.getLogger("rechannel")

APPLICATION = "application"
"""Kind of the note that holds the application whose executors the Configuration names."""


class Successor(Protocol):
    """What a driver has executors from. application: in which their ids mean something; empty = there are none."""

    @property
    def application(self) -> str:
        """A word of its own."""

    def restore_executors(self, executors: int) -> None:
        """Have as many executors as the driver before, if that can be."""


def is_other_application(journal: Journal, successor: Successor) -> bool:
    """Whether the executors that the journal names are those of another application; until `note_application`."""
    return successor.application not in {"", journal.state.notes.get(APPLICATION)}


def take_over(journal: Journal, successor: Successor, position: StreamPosition) -> Configuration:
    """The Configuration from the next timestep on. Where it is another one, that is in the journal."""
    configuration = position.configuration
    if configuration.executors is not None:
        successor.restore_executors(configuration.executors)
    if not journal.state.configurations or not is_other_application(journal, successor):
        return configuration  # a new journal has none: the Configuration is this driver's own
    return _journal_unplaced(journal, configuration, position.timestep, successor.application)


def note_application(journal: Journal, successor: Successor) -> None:
    """All that named executors of another application is settled; what is written from here on names this one's."""
    if is_other_application(journal, successor):
        journal.append(Note(kind=APPLICATION, body=successor.application))


def _journal_unplaced(
    journal: Journal, before: Configuration, timestep: int, here: str
) -> Configuration:
    after = without_places(before)
    if after is before:
        return before
    placed = {name: dict(op.placement) for name, op in before.operators.items() if op.placement}
    _LOG.warning("tasks are not placed any more: %s are executors of another application", placed)
    cause = f"executors are those of {here} now"
    changed = ConfigurationChanged(from_timestep=timestep, configuration=after, cause=cause)
    journal.append(changed)
    return after


def without_places(configuration: Configuration) -> Configuration:
    """The same, without tasks that were put anywhere; the next version, if there were any."""
    operators = configuration.operators
    if not any(operator.placement for operator in operators.values()):
        return configuration
    free = {name: replace(operator, placement={}) for name, operator in operators.items()}
    return replace(configuration, version=configuration.version + 1, operators=free)
