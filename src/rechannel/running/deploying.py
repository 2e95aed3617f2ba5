"""Deploy the text of another program to a running job: looked at, and carried out as a live change."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from msgspec import structs

from rechannel.assembly import Parts, rehearse_upgrade
from rechannel.engine.program.deploying import UnchangedError
from rechannel.engine.program.upgrade_plan import upgrade_plan
from rechannel.engine.program.versions import current_version
from rechannel.engine.reconfigure.proposal import proposed_change
from rechannel.errors import RefusedError
from rechannel.reconfigure.deploy import Deploy
from rechannel.reconfigure.edits import ChangeSet
from rechannel.reconfigure.upgrade_plan import UpgradePlan


class Texts(Protocol):
    """Reads what a deploy is given; only the entry point knows what a job is that was not started."""

    def __call__(self, job: Any, *, without: Collection[str], what: str) -> Deploy:
        """Return the deploy of a job's text.

        without: what may be given up. what: is deployed, in words. Raises RefusedError for the text of another job.
        """


def request_of(deploy: Deploy) -> ChangeSet:
    """Return the request that a deploy is."""
    return ChangeSet(edits=(deploy,), changes=())


def plan_deploy(parts: Parts, deploy: Deploy) -> UpgradePlan:
    """Return what a deploy would do. Raises what it would raise."""
    with parts.held.hold(lambda: parts.journal.state) as hold:
        # A running job commits what it has planned before another program takes over.
        state = structs.replace(hold.state, open_intents=())
        current = current_version(hold.state)
        try:
            where = parts.driver.position
            asked = request_of(deploy)
            with proposed_change(asked, parts.switch, parts.opener, where) as made:
                if made.program is None:
                    msg = "there is no program to deploy"
                    raise RefusedError(msg)
                tried = rehearse_upgrade(made.program, state)
                return upgrade_plan(made.program, state, current, tried=tried)
        except UnchangedError:
            why = "this program is the running one."
            return UpgradePlan(base=current, version=current, parts=(), notes=(why,))
