"""Where the Rechannel side of every comparison is found.

`benchmarks.rechannel_side` is imported only in the process that measures it, so that peers run,
and report, without it. A function there takes the variant's parameters (``scratch`` is an empty
directory) and returns one of the shapes of `benchmarks.measurements`.
"""

from __future__ import annotations

import importlib

from benchmarks.harness import Measurement, Parameters


def measure(function: str, parameters: Parameters) -> Measurement:
    """Call `function` of `benchmarks.rechannel_side`."""
    side = importlib.import_module("benchmarks.rechannel_side")
    measurement: Measurement = getattr(side, function)(parameters)
    return measurement


def measure_control(function: str, parameters: Parameters) -> Measurement:
    """Call `function` of `benchmarks.control_side`."""
    side = importlib.import_module("benchmarks.control_side")
    measurement: Measurement = getattr(side, function)(parameters)
    return measurement


def measure_live(function: str, parameters: Parameters) -> Measurement:
    """Call `function` of `benchmarks.live_side`, which runs on a cluster of two hosts."""
    side = importlib.import_module("benchmarks.live_side")
    measurement: Measurement = getattr(side, function)(parameters)
    return measurement


def measure_killed(parameters: Parameters) -> Measurement:
    """Call `benchmarks.killed_side.killed`."""
    side = importlib.import_module("benchmarks.killed_side")
    measurement: Measurement = side.killed(parameters)
    return measurement


def measure_skew_join(parameters: Parameters) -> Measurement:
    """Call `benchmarks.skew_join_side.run`."""
    side = importlib.import_module("benchmarks.skew_join_side")
    measurement: Measurement = side.run(parameters)
    return measurement
