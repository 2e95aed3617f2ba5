"""What detectors look at: the facts of an application, its tasks by stage, and the replay that computes gains."""

from __future__ import annotations

from dataclasses import dataclass

from rechannel.profiling.spark.application import Application


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An application to diagnose."""

    app: Application
