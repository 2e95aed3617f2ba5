"""What a driver makes of the Configuration that the one before left: executors are asked for again, and tasks that were
put on executors of another application, whose ids mean nothing here, are where they may be.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Protocol

from rechannel.engine.entries import ConfigurationChanged, Note
from rechannel.engine.journal import Journal
from rechannel.engine.place import Place
from rechannel.model.configuration import Configuration

_LOG = logging.getLogger(__name__)

APPLICATION = "application"
"""Kind of the note that holds the application whose executors the Configuration names."""


class Successor(Protocol):
    """What a driver has executors from. application: in which their ids mean something; empty = there are none."""

    @property
    def application(self) -> str:
        """A word of its own."""

    def recovered(self, executors: int) -> None:
        """Have as many executors as the driver before, if that can be."""


def take_over(journal: Journal, successor: Successor, place: Place) -> Configuration:
    """The Configuration from the next timestep on. Where it is another one, that is in the journal."""
    configuration, here = place.configuration, successor.application
    if configuration.executors is not None:
        successor.recovered(configuration.executors)
    before = journal.state.notes.get(APPLICATION)
    if here in {"", before}:
        return configuration
    if journal.state.configurations:  # else it is the first driver: its Configuration is its own
        configuration = _told(journal, configuration, place.timestep, here)
    journal.append(Note(kind=APPLICATION, body=here))
    return configuration


def _told(journal: Journal, before: Configuration, timestep: int, here: str) -> Configuration:
    after = unplaced(before)
    if after is before:
        return before
    placed = {name: dict(op.placement) for name, op in before.operators.items() if op.placement}
    _LOG.warning("tasks are not placed any more: %s are executors of another application", placed)
    cause = f"executors are those of {here} now"
    changed = ConfigurationChanged(from_timestep=timestep, configuration=after, cause=cause)
    journal.append(changed)
    return after


def unplaced(configuration: Configuration) -> Configuration:
    """The same, without tasks that were put anywhere; the next version, if there were any."""
    operators = configuration.operators
    if not any(operator.placement for operator in operators.values()):
        return configuration
    free = {name: replace(operator, placement={}) for name, operator in operators.items()}
    return replace(configuration, version=configuration.version + 1, operators=free)
