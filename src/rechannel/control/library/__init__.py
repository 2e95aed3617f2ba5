"""Controllers that come with Rechannel: `rc.Job(..., controllers=[rc.control.library.Balance()])`."""

from rechannel.control.library.autopilot import Autopilot
from rechannel.control.library.autoscale import AutoScale
from rechannel.control.library.balance import Balance
from rechannel.control.library.guard import Guard
from rechannel.control.library.interval import BatchInterval
from rechannel.control.library.model_update import ModelUpdate
from rechannel.control.library.monitor import Monitor
from rechannel.control.library.placement import Placement
from rechannel.control.library.skew_join import SkewJoin

__all__ = [
    "AutoScale",
    "Autopilot",
    "Balance",
    "BatchInterval",
    "Guard",
    "ModelUpdate",
    "Monitor",
    "Placement",
    "SkewJoin",
]
