"""A job over clicks with AutoScale, which has decided something."""

from __future__ import annotations

import time

import rechannel as rc
from rechannel.running import RunningJob
from tests.support.clicks import Clicks

PATIENCE = 400
"""Looks, a twentieth of a second each: tasks are known up to a second after their timestep."""


def scaled(clicks: Clicks, *, dry_run: bool) -> RunningJob:
    """Install AutoScale as "scale", and push rows, one timestep per second of the job's clock, until it has decided."""
    job = clicks.job_running
    steering = {"interval_s": 2, "warm_up_s": 0}
    scale = rc.control.library.AutoScale(policy="ds2", latency_ms=1_000, steering=steering)
    handle = job.control(rc.control.install(scale, name="scale", dry_run=dry_run))
    for number in range(PATIENCE):
        clicks.push([(f"u{key}", number) for key in range(20 + number % 3)])
        if number >= 8 and handle.state["decisions"]:
            break
        time.sleep(0 if number < 8 else 0.05)
    assert handle.state["decisions"], handle.status
    for _ in range(PATIENCE):
        needs = job.advice(window=0.5).needs
        if needs is not None and needs.timestep == job.status.timestep:
            return job
        time.sleep(0.05)
    msg = f"the tasks of timestep {job.status.timestep} are not known"
    raise AssertionError(msg)
