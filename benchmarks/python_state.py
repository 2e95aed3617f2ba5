"""A user's Python function with state: once per key, and vectorised, against Spark's two forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.comparison import Ratio, compare_batches, keyed_input
from benchmarks.harness import (
    Benchmark,
    Measurement,
    Parameters,
    Result,
    Variant,
    Workbench,
)
from benchmarks.ours import measure

PEERS = {
    "applyInPandasWithState": "benchmarks.peers.python_state:run_apply_in_pandas_with_state",
    "transformWithState": "benchmarks.peers.python_state:run_transform_with_state",
}
FORMS = ("per_key", "vectorised")
"""Flavours of `track`."""
PROCESS = {"per_key": "process", "vectorised": "process_batches"}
"""The forms of a process function that does what `track` does, by flavour."""
BOUND = {"per_key": "track_over_process", "vectorised": "track_over_process_batches"}
"""Ratios of `track` over them: a process function takes at most 1.15 times as long."""
OURS = "benchmarks.python_state:run_rechannel"


def run_rechannel(parameters: Parameters) -> Measurement:
    """Rechannel's side: `track` in the flavour that ``form`` names, or a form of `PROCESS`."""
    return measure("python_state", parameters)


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Measure every case of ``cases``; ratios of the case ``large`` carry no suffix."""
    variants: list[Variant] = []
    ratios: list[Ratio] = []
    for case, size in parameters["cases"].items():
        directory = keyed_input(
            parameters,
            bench,
            name=case,
            rows=size["rows"],
            keys=size["keys"],
            batches=max(parameters["batches"], size["peer_batches"]),
        )
        mark = "" if case == "large" else f"_{case}"
        variants += variants_over(directory, parameters, size, mark)
        ratios += [
            Ratio(
                name=f"{peer}_{form}{mark}", over=f"{peer}{mark}", under=f"rechannel_{form}{mark}"
            )
            for peer in PEERS
            for form in FORMS
        ]
        ratios += [
            Ratio(
                name=f"{BOUND[form]}{mark}",
                over=f"rechannel_{form}{mark}",
                under=f"rechannel_{PROCESS[form]}{mark}",
            )
            for form in FORMS
        ]
    return compare_batches(
        parameters,
        variants,
        ratios,
        bench,
        title="A Python function with state per key: seconds per batch",
    )


def variants_over(
    directory: str, parameters: Parameters, size: Mapping[str, int], mark: str
) -> list[Variant]:
    """Both flavours of `track` and of `process`, and both peers over `directory`; names end in `mark`.

    Where a batch takes the peers up to half a minute, they run fewer: `size` says how many.
    """
    common: dict[str, Any] = {
        **{k: v for k, v in parameters.items() if k != "cases"},
        "input": directory,
    }
    fewer = {
        **common,
        "batches": size["peer_batches"],
        "warmup": size["peer_warmup"],
    }
    return [
        *(
            Variant(
                name=f"rechannel_{form}{mark}", function=OURS, parameters={**common, "form": form}
            )
            for form in (*FORMS, *PROCESS.values())
        ),
        *(
            Variant(name=f"{peer}{mark}", function=function, parameters=fewer)
            for peer, function in PEERS.items()
        ),
    ]


BENCHMARK = Benchmark(
    name="python-state",
    purpose="Python functions with state, against applyInPandasWithState and transformWithState",
    defaults={
        "cases": {
            "large": {"rows": 1_000_000, "keys": 100_000, "peer_batches": 5, "peer_warmup": 2},
            "small": {"rows": 200_000, "keys": 10_000, "peer_batches": 12, "peer_warmup": 4},
        },
        "batches": 12,
        "warmup": 4,
        "rounds": 2,
        "cores": 2,
        "tasks": 2,
        "files": 2,
        "seed": 1,
        "durability": "process",
        "driver_memory": "4g",
        "timeout_seconds": 1_800,
    },
    quick={
        "cases": {
            "large": {"rows": 10_000, "keys": 1_000, "peer_batches": 4, "peer_warmup": 2},
        },
        "batches": 6,
        "warmup": 2,
        "rounds": 1,
    },
    run=run,
    goals={
        "applyInPandasWithState_per_key": 40.0,
        "transformWithState_per_key": 20.0,
        "applyInPandasWithState_vectorised": 70.0,
        "transformWithState_vectorised": 35.0,
        **dict.fromkeys(BOUND.values(), 0.87),
    },
)
