"""A deploy: the text of another program takes over from the running one, by the rules of an upgrade.

It is no change that users name in a list: `RunningJob.deploy` makes it of a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rechannel.dataflow.evolution.declared import Declared
from rechannel.dataflow.evolution.migration import Migrate
from rechannel.dataflow.graph.nodes import Dataflow
from rechannel.dataflow.identity.provided import Provided
from rechannel.reconfigure.edits import ChangeSet, ProgramEdit


@dataclass(frozen=True, eq=False, kw_only=True)
class Deploy(ProgramEdit):
    """Put the dataflow of another text in place of the running one."""

    dataflow: Dataflow
    declared: Declared
    """What the text declares, and what the deploy permits."""
    provided: Provided
    """The functions that the text provides: a restart with it has no others."""
    what: str = "the program"
    """What is deployed, in words."""

    @property
    def migrations(self) -> Mapping[str, Migrate]:
        """Return all that the text declares; those that were carried out stay in the text."""
        return self.declared.migrate

    def applied(self, dataflow: Dataflow) -> Dataflow:
        """The dataflow of the text."""
        del dataflow
        return self.dataflow

    def __str__(self) -> str:
        """In words."""
        return f"a deploy of {self.what}"


def deploy_of(asked: ChangeSet) -> Deploy | None:
    """Return the deploy among the changes of a request; None if there is none."""
    return next((edit for edit in asked.edits if isinstance(edit, Deploy)), None)
