"""Changes of a running job: `job.reconfigure(rc.changes.rescale("users", tasks=8))`.

A change is a value. `job.plan` says what it would do, `job.reconfigure` carries it out; both take one change or a
list of changes, which is then atomic. `watermark` says when a change holds; `migrate` what happens to state.

Every registered change is here by its name, also one of your own once it is registered.
"""

from __future__ import annotations

from typing import Any

from rechannel.dataflow.evolution.migration import migrate
from rechannel.model.routing import Routing
from rechannel.reconfigure import changes, edits
from rechannel.reconfigure.changes import *  # noqa: F403 - each family of changes lists its names once
from rechannel.reconfigure.changes.registry import python_names
from rechannel.reconfigure.edits import *  # noqa: F403
from rechannel.reconfigure.moment import watermark
from rechannel.reconfigure.plan import Plan
from rechannel.reconfigure.upgrade_plan import UpgradePlan

__all__ = ["Plan", "Routing", "UpgradePlan", "migrate", "watermark"]
__all__ += changes.__all__
__all__ += edits.__all__


def __getattr__(name: str) -> Any:
    """A change that was registered later."""
    found = python_names().get(name)
    if found is None:
        msg = f"there is no change {name!r}; there are {sorted(python_names())}"
        raise AttributeError(msg)
    return found


def __dir__() -> list[str]:
    """All public names."""
    return sorted({*__all__, *python_names()})
