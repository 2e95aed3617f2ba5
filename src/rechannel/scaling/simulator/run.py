"""A policy against a load on a simulated engine.

At the end of each policy interval the policy sees what the engine reports, and its advice is followed at once: a policy
that should be held back is given as a `SteeredPolicy`. Advice for what the engine has no number of, such as a source,
is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from rechannel.errors import RefusedError
from rechannel.scaling.policies.policy import Memory, Policy
from rechannel.scaling.simulator.story import Change, Story
from rechannel.scaling.simulator.windows import Engine, Window


def simulate(
    engine: Engine,
    policy: Policy | None,
    *,
    until_s: float,
    every_s: float = 60.0,
    oracle_utilisation: float = 1.0,
) -> Story:
    """Run an engine until a time, and return its story.

    policy: None changes nothing. every_s: the policy interval; the last one may be shorter. oracle_utilisation: share
    of an instance's time, or of an interval, that the oracle may use.

    Raises RefusedError for a time that is not later than the engine's, and for advice that cannot be followed.
    """
    start = engine.now_s
    if not start < until_s < math.inf or not 0 < every_s < math.inf:
        msg = f"until_s={until_s}, every_s={every_s}: the engine is at {start} s; give a later time, and an interval"
        raise RefusedError(msg)
    count = math.ceil((until_s - start) / every_s * (1 - 1e-9))
    edges = np.minimum(start + every_s * np.arange(count + 1.0), until_s)
    windows, cores, changes = list[Window](), list[int](), list[Change]()
    memory: Memory = None
    for end in edges[1:].tolist():
        windows.append(engine.advance(end))
        cores.append(engine.cores)
        if policy is None or end == until_s:
            continue
        advice, memory = policy.decide(windows[-1].seen, memory)
        if advice is not None:
            change = _follow(engine, advice.parallelism, advice.executors, advice.reason)
            changes += [change] if change is not None else []
    return Story(
        changes=tuple(changes),
        edges_s=edges,
        parallelism={
            name: np.array([float(each.seen.parallelism[name]) for each in windows])
            for name in engine.parallelism
        },
        cores=np.array(cores, dtype=float),
        arrived=np.array([sum(a.rate for a in w.seen.arrivals.values()) for w in windows]),
        at_s=np.concatenate([each.at_s for each in windows]),
        spans_s=np.concatenate([each.spans_s for each in windows]),
        latency_s=np.concatenate([each.latency_s for each in windows]),
        core_seconds=sum(each.core_seconds for each in windows),
        oracle=engine.oracle(edges, utilisation=oracle_utilisation),
    )


def _follow(
    engine: Engine, parallelism: Mapping[str, int], executors: int | None, reason: str
) -> Change | None:
    """Follow advice; return what changed, None if nothing did."""
    before = engine.parallelism
    wanted = {name: n for name, n in parallelism.items() if before.get(name, n) != n}
    if not wanted and executors in {None, engine.executors}:
        return None
    engine.change(wanted, executors)
    return Change(
        at_s=engine.now_s,
        before=before,
        after=engine.parallelism,
        executors=executors,
        reason=reason,
    )
