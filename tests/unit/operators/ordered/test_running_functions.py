"""`lag` and `difference` over random groups, beside lists."""

from random import Random

import pyarrow as pa
import pytest

from rechannel import aggregates as agg
from rechannel.operators.ordered.running_spec import RunningSpec
from tests.support.arrivals import arrivals, output_of, state_of

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("s", pa.string())])


@pytest.mark.parametrize("n", [1, 2, 5])
def test_values_of_earlier_rows_whatever_was_there(n):
    spec = RunningSpec(
        functions={
            "before": agg.lag("x", n),
            "word": agg.lag("s", n, default="none"),
            "step": agg.difference("x", n),
        }
    )
    logic, rng, kept = spec.bind(("k",), SCHEMA), Random(n), {}
    shown = 0
    for _ in range(60):
        rows = [
            ((rng.randrange(6),), (rng.choice((None, 1, 2, 7)), rng.choice((None, "a", "b"))))
            for _ in range(rng.choice((1, 3, 12)))
        ]
        # Keys without state find that of another key in its place.
        known = {
            key: tuple([row[i] for row in before[-n:]] for i in (0, 1, 0))
            for key, before in kept.items()
        }
        given = arrivals(logic, rows, known)
        applied = logic.apply(given)
        expected = []
        for key in dict.fromkeys(key for key, _ in rows):
            for own, row in rows:
                if own == key:
                    all_ = [*kept.get(key, []), row]
                    there = len(all_) > n
                    earlier = all_[-1 - n] if there else (None, "none")
                    step = None if None in (row[0], earlier[0]) else row[0] - earlier[0]
                    expected.append((*key, *row, *earlier, step))
                    kept[key] = all_
        assert output_of(applied) == expected
        shown += sum(row[3] is not None for row in expected)
        last = {key: kept[key][-n:] for key, _ in rows}
        assert state_of(logic, given, applied) == {
            key: tuple([row[i] for row in values] for i in (0, 1, 0))
            for key, values in last.items()
        }
        if rng.random() < 0.1:
            kept.pop(rng.choice(list(kept)))
    assert shown > 50
