"""What a controller asks of a change without requesting it."""

from __future__ import annotations

import time
from typing import Any

import pytest

import rechannel as rc
from rechannel.errors import NotReadyError, RefusedError
from rechannel.model.configuration import Configuration
from rechannel.testing import script

CHANGE, GENTLE = rc.changes.rescale("users", 4), rc.strategies.fluid(bins=2)


class Asks(rc.control.Controller):
    """Plans a change after every timestep."""

    trigger = rc.control.every(timesteps=1)

    def on_begin(self, control: rc.control.Control[Any]) -> None:
        """Keep the plan, and what was said of a change that is refused."""
        plan = control.plan(CHANGE, strategy=GENTLE)
        try:
            control.plan(rc.changes.rescale("users", 10_000))
        except RefusedError as error:
            control.state = [plan.to_json(), str(error)]


def settled(plan: dict[str, Any]) -> dict[str, Any]:
    """What does not depend on how much state there was at that moment."""
    affected = [{**each, "bytes": None} for each in plan["affected"]]
    kept = {name: plan[name] for name in ("change", "strategy", "timesteps", "advice")}
    return {**kept, "steps": len(plan["steps"]), "affected": affected}


def test_a_controller_plans_what_the_job_plans(tmp_path):
    clicks = script("user BIGINT")
    counts = (
        rc.read().memory(clicks).key_by("user").aggregate(n=rc.aggregates.count(), name="users")
    )
    job = rc.Job(
        "asked",
        counts.write.memory("out"),
        state=tmp_path / "state",
        settings=rc.Settings(tasks=2, bins=16),
        controllers=[rc.control.install(Asks(), name="asks")],
    ).start(in_process=rc.InProcess())
    for _ in range(200):
        if job.controllers["asks"].state:
            break
        clicks.push([{"user": each} for each in range(500)])
        job.process_all_available()
        time.sleep(0.02)
    expected = job.plan(CHANGE, GENTLE)
    planned, refused = job.controllers["asks"].state
    job.stop()
    assert expected.bins == 8
    assert expected.size > 0
    assert settled(planned) == settled(expected.to_json())
    assert all(each["bytes"] > 0 for each in planned["affected"])
    assert planned["cost_ms"] > 0
    assert "10000" in refused.replace(",", "")


def test_a_control_without_a_stream_has_no_plan():
    control = rc.control.Control[Any](
        name="c", state=None, timestep=1, time_ms=1, configuration=Configuration()
    )
    with pytest.raises(NotReadyError, match="needs its state"):
        control.plan(CHANGE)
