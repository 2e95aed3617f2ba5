"""The real run of `ds2-flink`: Flink's word count, whose source halves its rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import rechannel as rc
from benchmarks.ds2_flink import COUNT, FLATMAP, PUBLISHED
from benchmarks.ds2_loads import KEYS, SPLITS
from benchmarks.ds2_side import Trial, run_trial, session_of
from benchmarks.harness import Measurement, Parameters
from benchmarks.slots import Slot
from benchmarks.stepped_rate import stepped
from rechannel import aggregates as agg
from rechannel.dataflow.graph.naming import DerivedName
from rechannel.sources.connectors import GeneratorConnector


@dataclass(frozen=True, kw_only=True)
class Words:
    """One word in a line, evenly drawn."""

    words: int

    def __call__(self, start: int, stop: int) -> pa.RecordBatch:
        """Return lines start to stop."""
        number = np.arange(start, stop, dtype=np.int64)
        return pa.record_batch({"word": number * 7_919 % self.words})


def run(parameters: Parameters) -> Measurement:
    """Run it from the paper's start: the rate, and the share of it after a while."""
    rate = parameters["rate"] * parameters["scale"]
    share = 1 - parameters["own"]
    slots = {name: rate / (tasks - parameters["short"]) for name, tasks in PUBLISHED.first.items()}
    connector = GeneratorConnector(
        function=Words(words=KEYS),
        schema=pa.schema({"word": pa.int64()}),
        rows_per_second=rate,
        per_timestep=round((1 + parameters["slack"]) * rate * parameters["interval_ms"] / 1e3),
        partitions=SPLITS,
    )
    spark = session_of(parameters)
    halved = stepped(connector, after_s=parameters["after_s"], then=parameters["then"])
    lines = rc.read(spark).connector(halved, DerivedName(FLATMAP), name=FLATMAP)
    words = lines.map_batches(Slot(seconds=share / slots[FLATMAP]), name="split")
    trial = Trial(
        stream=words.key_by("word").aggregate(n=agg.count(), name=COUNT),
        seconds={COUNT: share / slots[COUNT]},
        tasks=parameters["starts"],
        main=COUNT,
        quiet=None,
        most_s=parameters["seconds"],
        in_flight=2,
    )
    return {**run_trial(trial, parameters, "ds2-flink"), "rate": rate, "slots": slots}
