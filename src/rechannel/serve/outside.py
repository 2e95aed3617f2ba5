"""The changes that may come from outside."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from rechannel.reconfigure import changes as c

OneChange: TypeAlias = Annotated[
    c.AssignWorkload
    | c.AssignResources
    | c.AssignLogic
    | c.Rescale
    | c.Rebalance
    | c.Move
    | c.Split
    | c.Merge
    | c.Rewrite
    | c.Place
    | c.SetCombine
    | c.SetInterval
    | c.SetInFlight
    | c.SetBound
    | c.SetExecutors,
    Field(discriminator="kind"),
]
"""Every change but that of the whole program, which needs the functions themselves."""
