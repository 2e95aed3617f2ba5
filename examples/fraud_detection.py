"""Keep a model good while fraud changes: a controller trains it again and puts it in force, between two timesteps.

For alerts on a stream of payments, see `card_alerts.py`.

Every minute has 150 payments with four features (normal, mean 0, deviation 1). A payment is fraud if `RULES` of its
phase says so; one phase takes over from the other at minutes 20 and 40, and the model is not told. What was fraud is
reported three minutes later. The same payments are scored twice: with the controller and without.

From the root of the repository: python -m examples.fraud_detection

Prints:

    minutes    without   with
     0 to  5      0.86   0.86
     5 to 10      0.84   0.84
    10 to 15      0.82   0.82
    15 to 20      0.88   0.88
    20 to 25      0.02   0.02
    25 to 30      0.03   0.38
    30 to 35      0.01   0.87
    35 to 40      0.01   0.88
    40 to 45      0.12   0.04
    45 to 50      0.16   0.38
    50 to 55      0.15   0.89
    55 to 57      0.14   0.82
    update 1: F1 was 0.39
    update 1: F1 0.39 -> 0.91
    update 2: F1 was 0.37
    update 2: F1 0.37 -> 0.95
"""

import datetime as dt
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import rechannel as rc
from rechannel.testing import Harness, script

HERE = "examples.fraud_detection"
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
FEATURES = ("amount", "distance", "hour", "age")
RULES = ((2.0, 1.0, 0.0, 0.0), (-1.0, 0.0, 2.0, 0.0), (0.0, 1.0, -1.0, 2.0))
"""Weight of each feature, by phase: fraud is what weighs more than 1.3 deviations, with some noise."""
PHASE_MINUTES = 20
REPORTED_AFTER = 3
"""Minutes from a payment to its label."""

COLUMNS = "payment BIGINT, at TIMESTAMP, amount DOUBLE, distance DOUBLE, hour DOUBLE, age DOUBLE"
CASE = COLUMNS.partition(", ")[2] + ", predicted BOOLEAN, actual BOOLEAN"


# The data -----------------------------------------------------------------------------------------


def payments(seed: int, phase: int, count: int) -> tuple[Any, Any]:
    """Return features, shape (count, 4), and which payments are fraud."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(count, len(FEATURES)))
    weights = np.array(RULES[phase])
    noise = 0.4 * random.normal(size=count)
    return features, features @ weights + noise > 1.3 * np.linalg.norm(weights)


def stream_of(minutes: int, per_minute: int) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of each minute: its payments, and the labels of earlier ones."""
    labels: list[list[dict[str, Any]]] = []
    for minute in range(minutes):
        features, fraud = payments(minute, minute // PHASE_MINUTES % len(RULES), per_minute)
        first, at = minute * per_minute, NOON + dt.timedelta(minutes=minute)
        rows = [
            {
                "payment": first + n,
                "at": at,
                "fraud": None,
                **dict(zip(FEATURES, each, strict=True)),
            }
            for n, each in enumerate(features.tolist())
        ]
        nothing = dict.fromkeys(FEATURES)
        labels.append(
            [
                {"payment": first + n, "at": at, "fraud": each, **nothing}
                for n, each in enumerate(fraud.tolist())
            ]
        )
        yield rows + (labels[-1 - REPORTED_AFTER] if minute >= REPORTED_AFTER else [])


# The model ----------------------------------------------------------------------------------------


def scorer(weights: list[float], threshold: float) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return the function that predicts, for a logistic regression. weights: of the features, and the constant."""

    def score(rows: pa.RecordBatch) -> pa.RecordBatch:
        features = np.column_stack([rows[name].to_numpy(zero_copy_only=False) for name in FEATURES])
        odds = features.astype(float) @ np.array(weights[:-1]) + weights[-1]
        predicted = pa.array(odds > threshold, mask=np.isnan(odds))  # a label is no payment
        return rows.append_column("predicted", predicted)

    return score


def train(cases: pa.Table) -> dict[str, Any]:
    """Fit a logistic regression by Newton's method, and choose the threshold with the best F1."""
    features = np.column_stack([cases[name].to_numpy() for name in FEATURES])
    fraud = cases["actual"].to_numpy().astype(float)
    inputs = np.column_stack([features, np.ones(len(fraud))])
    weights = np.zeros(inputs.shape[1])
    for _ in range(8):
        chance = 1 / (1 + np.exp(-inputs @ weights))
        curvature = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + np.eye(len(weights))
        weights += np.linalg.solve(curvature, inputs.T @ (fraud - chance) - weights)
    odds = inputs @ weights
    threshold = max(
        np.quantile(odds, np.linspace(0.5, 0.99, 50)), key=lambda t: f1(odds > t, fraud)
    )
    return {"weights": weights, "threshold": float(threshold)}


def f1(predicted: Any, actual: Any) -> float:
    """Harmonic mean of precision and recall."""
    predicted, actual = np.asarray(predicted, dtype=bool), np.asarray(actual, dtype=bool)
    return float(2 * (predicted & actual).sum() / max(1, predicted.sum() + actual.sum()))


# The program --------------------------------------------------------------------------------------


def follow(_payment: int, state: Any, rows: rc.frames.Rows) -> tuple[Any, ...] | None:
    """Keep a payment with its prediction, and add the label when it is reported."""
    label = next((fraud for fraud in rows["fraud"] if fraud is not None), None)
    if state is not None:
        return (*state[:-1], label)
    names = ("at", *FEATURES, "predicted")
    return None if rows["amount"][0] is None else (*(rows[n][0] for n in names), label)


def program(source: Any, first: dict[str, Any]) -> Any:
    """Return the dataflow. first: parameters of the model that it begins with."""
    scored = (
        rc.read()
        .memory(source, name="payments")
        .event_time("at")
        .map_batches(scorer(**first), f"{COLUMNS}, fraud BOOLEAN, predicted BOOLEAN", name="score")
    )
    cases = scored.key_by("payment").track(
        follow, state=CASE, timeout="15 minutes", time="event", name="cases"
    )
    return cases.write.memory("out")


def controller() -> rc.control.Controller:
    """Return what watches F1 of the last seven minutes."""
    return rc.control.library.ModelUpdate(
        operator="score",
        factory=f"{HERE}:scorer",
        train=f"{HERE}:train",
        labelled="cases",
        bound=0.6,
        least=20,
        window_ms=7 * 60_000,
        sample=500,
    )


def run(minutes: int, per_minute: int, *, controlled: bool) -> tuple[list[float], list[str]]:
    """Score the payments; returns F1 by minute, and what the controller has written."""
    features, fraud = payments(10_000, 0, 2_000)
    past = pa.table({**dict(zip(FEATURES, features.T, strict=True)), "actual": fraud})
    model = train(past)
    source = script(f"{COLUMNS}, fraud BOOLEAN")
    stream = Harness(program(source, model | {"weights": model["weights"].tolist()}))
    process = stream.start(controllers=[controller()] if controlled else [])
    for rows in stream_of(minutes, per_minute):
        source.push(rows)
        process.run()
    found = pa.concat_tables(stream.outputs().values()).to_pylist()
    labelled = [row for row in found if row["actual"] is not None]
    by_minute: dict[dt.datetime, list[tuple[bool, bool]]] = {}
    for row in labelled:
        by_minute.setdefault(row["at"], []).append((row["predicted"], row["actual"]))
    seats = process.controllers.board.seats.values()
    log = [line.text for seat in seats for line in seat.log]
    return [f1(*zip(*by_minute[at], strict=True)) for at in sorted(by_minute)], log


def main(_folder: Path, minutes: int = 60, per_minute: int = 150) -> None:
    """Score the same payments with the controller and without, and print F1."""
    without, _ = run(minutes, per_minute, controlled=False)
    kept, log = run(minutes, per_minute, controlled=True)
    print("minutes    without   with")
    for begin in range(0, len(kept), 5):
        here = slice(begin, begin + 5)
        means = f"{np.mean(without[here]):7.2f}{np.mean(kept[here]):7.2f}"
        print(f"{begin:2} to {begin + len(kept[here]):2}   {means}")
    print(*(line for line in log if line.startswith("update")), sep="\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
