"""What Spark's dynamic allocation goes by, from measured timesteps: tasks that wait, and executors that idle. Pure.

Spark looks at both at every moment; a timestep tells what they were within it. In an operator's turn with more tasks
than cores, those beyond wait from its beginning until the last of them is launched: as tasks take about the same time,
for the share of the turn that the first ones take. Executors are told apart by their number only: if at most two had a
task since some moment, all others have been idle since then.
"""

from __future__ import annotations

from collections.abc import Sequence

from rechannel.telemetry.recent_tasks import OperatorTasks, TimestepTasks


def waiting(timestep: TimestepTasks, cores: int) -> tuple[int, float]:
    """Return how many tasks waited for a core, and for how many seconds, in the turn in which they waited longest."""
    turns = [each for each in timestep.operators.values() if len(each.rows) > cores]
    return max((_waited(turn, cores) for turn in turns), key=lambda each: each[1], default=(0, 0.0))


def _waited(turn: OperatorTasks, cores: int) -> tuple[int, float]:
    tasks = len(turn.rows)
    waves = -(-tasks // cores)
    return tasks - cores, (turn.ended_ms - turn.began_ms) / 1e3 * (waves - 1) / waves


def idle_s(timesteps: Sequence[TimestepTasks], executors: int) -> tuple[float, ...]:
    """Return for how long executors had no task, in seconds, by the end of the last timestep.

    timesteps: oldest first. Empty if no executor was idle in the last timestep, or if nothing tells where tasks ran.
    """
    if not timesteps or not timesteps[-1].executors:
        return ()
    now_ms = _ended_ms(timesteps[-1])
    out = []
    for number in range(timesteps[-1].executors + 1, executors + 1):
        since = next((t for t in reversed(timesteps) if t.executors >= number), timesteps[0])
        out.append((now_ms - _ended_ms(since)) / 1e3)
    return tuple(out)


def _ended_ms(timestep: TimestepTasks) -> float:
    return max((each.ended_ms for each in timestep.operators.values()), default=0.0)
