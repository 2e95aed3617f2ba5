"""The simulator of scaling: a day of a stream in seconds, under any load and any policy, on either kind of engine.

    dataflow = Dataflow(
        topology=topology([("lines", "count")]),
        sources={"lines": Source(load=Bursts(load=Wave(mean=1000, swing=400), seed=1))},
        operators={"count": Operator(rate=100)},
    )
    policy = SteeredPolicy(policy=policy_named("ds2"))
    story = simulate(ContinuousEngine(dataflow), policy, until_s=86_400)
    print(story.in_target(10), story.over_oracle)

What it covers: rates, fixed costs, skew, slow instances and executors, bounded queues and back-pressure, restarts,
executors that take time to arrive. What it does not: single records and their order, state and what moving it costs
beyond the time that is given, memory, networks. Records are a fluid.
"""

from __future__ import annotations

from rechannel.scaling.model.timesteps import Pace
from rechannel.scaling.model.topology import Topology, topology
from rechannel.scaling.policies.policy import Advice, Policy, Seen
from rechannel.scaling.policies.registry import policy_named
from rechannel.scaling.policies.steering import SteeredPolicy
from rechannel.scaling.policies.steering_settings import Steering
from rechannel.scaling.simulator.continuous import ContinuousEngine
from rechannel.scaling.simulator.dataflow import Dataflow, Source
from rechannel.scaling.simulator.executors import Cluster, Slow
from rechannel.scaling.simulator.loads import (
    Bursts,
    Constant,
    Load,
    Noise,
    Steps,
    Stopped,
    Sum,
    Wave,
    mean_rate,
)
from rechannel.scaling.simulator.microbatches import MicroBatchEngine
from rechannel.scaling.simulator.operators import Operator
from rechannel.scaling.simulator.run import simulate
from rechannel.scaling.simulator.story import Change, Story
from rechannel.scaling.simulator.timesteps import BatchOperator
from rechannel.scaling.simulator.windows import Engine, Oracle, Window

__all__ = [
    "Advice",
    "BatchOperator",
    "Bursts",
    "Change",
    "Cluster",
    "Constant",
    "ContinuousEngine",
    "Dataflow",
    "Engine",
    "Load",
    "MicroBatchEngine",
    "Noise",
    "Operator",
    "Oracle",
    "Pace",
    "Policy",
    "Seen",
    "Slow",
    "Source",
    "SteeredPolicy",
    "Steering",
    "Steps",
    "Stopped",
    "Story",
    "Sum",
    "Topology",
    "Wave",
    "Window",
    "mean_rate",
    "policy_named",
    "simulate",
    "topology",
]
