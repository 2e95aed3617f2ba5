"""Every benchmark by its name."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks import (
    batch_interval,
    big_timestep,
    billion,
    bins,
    control,
    diagnosis,
    ds2_flink,
    ds2_heron,
    ds2_nexmark,
    ingest,
    kafka,
    kafka_latency,
    kafka_transactions,
    keyed_state,
    latency,
    object_store,
    pipelining,
    placement,
    profile,
    python_state,
    reconfigure,
    recovery,
    rescale_peer,
    scale,
    scale_logs,
    scaling_cost,
    scaling_day,
    simulator_error,
    skew,
    skew_join,
    sliding,
    state_growth,
    tables,
    telemetry_overhead,
    trisk,
    watching,
    wide_exchange,
    width,
)
from benchmarks.autopilot import benchmark as autopilot
from benchmarks.harness import Benchmark
from benchmarks.nexmark import benchmark as nexmark
from benchmarks.nexmark import flink as nexmark_flink
from benchmarks.yahoo import benchmark as yahoo

BENCHMARKS: Mapping[str, Benchmark] = {
    module.BENCHMARK.name: module.BENCHMARK
    for module in (
        keyed_state,
        python_state,
        latency,
        state_growth,
        billion,
        scale,
        scale_logs,
        scaling_cost,
        scaling_day,
        simulator_error,
        ds2_heron,
        ds2_flink,
        ds2_nexmark,
        pipelining,
        telemetry_overhead,
        reconfigure,
        recovery,
        kafka,
        kafka_latency,
        kafka_transactions,
        object_store,
        tables,
        ingest,
        bins,
        width,
        wide_exchange,
        rescale_peer,
        sliding,
        profile,
        diagnosis,
        skew,
        watching,
        control,
        batch_interval,
        placement,
        autopilot,
        skew_join,
        trisk,
        big_timestep,
        nexmark,
        nexmark_flink,
        yahoo,
    )
}
