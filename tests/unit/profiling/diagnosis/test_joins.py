"""Findings about joins that were not broadcast, on applications made of values."""

import pytest

from rechannel.profiling.diagnosis.joins import missed_broadcasts
from tests.unit.profiling.diagnosis.made import application, found, stage, task

MIB = 1 << 20


def joining(small, text="SortMergeJoin [key#1], [key#2], Inner", skipped=False, large=500 * MIB):
    """A join of 500 MiB, or more, with another side. The large side writes for half of its time."""
    tasks = [
        task(0, 0, 0, 1_000, written=small),
        task(1, 0, 0, 8_000, written=large, writing=4_000),
        task(2, 0, 8_000, 18_000, wait=2_500, read=large),
    ]
    sides = [stage(0, 0, 1_000, rdd=10), stage(1, 0, 8_000, rdd=11)]
    if skipped:
        sides += [stage(3, 0, 0, rdd=10), stage(4, 0, 0, rdd=11)]
    parents = (3, 4) if skipped else (0, 1)
    join = stage(2, 8_000, 18_000, parents=parents, details=("Sort [key#1 ASC]", text))
    return application(20_000, tasks, *sides, join)


@pytest.mark.parametrize("skipped", [False, True])
def test_a_small_side_that_was_shuffled(skipped):
    finding = found(missed_broadcasts, joining(2 * MIB, skipped=skipped))["missed-broadcast"]
    assert finding.seconds == pytest.approx(6.5)
    assert "joins 500 MiB with only 2.0 MiB" in finding.text
    assert "spark.sql.autoBroadcastJoinThreshold" in finding.advice
    assert finding.certainty == "possible"


def test_sides_that_cannot_be_broadcast():
    assert found(missed_broadcasts, joining(80 * MIB)) == {}
    assert found(missed_broadcasts, joining(0)) == {}
    assert found(missed_broadcasts, joining(2 * MIB, "SortMergeJoin [a#1], [b#2], FullOuter")) == {}
    assert found(missed_broadcasts, joining(2 * MIB, "BroadcastHashJoin [a#1], [b#2], Inner")) == {}
    outer = found(missed_broadcasts, joining(2 * MIB, "SortMergeJoin [a#1], [b#2], LeftOuter"))
    assert "LeftOuter joins can broadcast only one" in outer["missed-broadcast"].text
