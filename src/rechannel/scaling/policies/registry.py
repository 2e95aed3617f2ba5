"""Policies by name, with their published defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rechannel.errors import RefusedError
from rechannel.scaling.policies.dhalion import Dhalion
from rechannel.scaling.policies.ds2 import Ds2
from rechannel.scaling.policies.dynamic_allocation import (
    DynamicAllocation,
    StreamingDynamicAllocation,
)
from rechannel.scaling.policies.flink import Flink
from rechannel.scaling.policies.policy import Policy
from rechannel.scaling.policies.threshold import Threshold
from rechannel.scaling.policies.timesteps import TimestepDs2

POLICIES: Mapping[str, Callable[[], Policy]] = {
    "ds2": Ds2,
    "ds2-timesteps": TimestepDs2,
    "dhalion": Dhalion,
    "threshold": Threshold,
    "dynamic-allocation": DynamicAllocation,
    "streaming-dynamic-allocation": StreamingDynamicAllocation,
    "flink": Flink,
}
"""What makes each policy: DS2 for instances with a core each, DS2 for timesteps, and their rivals."""


def policy_named(name: str) -> Policy:
    """Return the policy of a name with its defaults. Raises RefusedError for a name that has none."""
    if name not in POLICIES:
        raise RefusedError(f"policy {name!r}: there is none; give one of {', '.join(POLICIES)}")
    return POLICIES[name]()
