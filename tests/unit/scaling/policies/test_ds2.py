"""DS2 as a policy: one decision, backlogs, and what useful time does not contain."""

from dataclasses import replace

import numpy as np
import pytest

from rechannel.errors import RefusedError
from rechannel.scaling.policies.ds2 import Ds2, Offset

from .windows import linear

HERON = {"flatmap": 100_000 / 60, "count": 1_000_000 / 60}


def test_the_word_count_of_the_paper_takes_one_decision():
    seen = linear(1_000_000 / 60, {"flatmap": 1, "count": 1}, HERON, ratio=20, window_s=60)
    advice, memory = Ds2().decide(seen, None)
    assert advice.parallelism == {"flatmap": 10, "count": 20}
    assert "one of its instances can process" in advice.reason
    after = linear(1_000_000 / 60, {"flatmap": 10, "count": 20}, HERON, ratio=20, window_s=60)
    assert Ds2().decide(after, memory)[0] is None


def test_a_backlog_counts_over_the_catch_up_time():
    seen = linear(1000, {"flatmap": 10, "count": 20}, {"flatmap": 100, "count": 100}, backlog=3000)
    assert Ds2().decide(seen, None)[0] is None
    assert Ds2(catch_up_s=10).decide(seen, None)[0].parallelism == {"flatmap": 13, "count": 26}


def slowed(arriving: float, plan: dict[str, int], share: float):
    """A window in which a share of what arrives is taken in, although instances have time left."""
    rates = {"flatmap": 100.0, "count": 100.0}
    seen = linear(arriving, plan, rates)
    made = {
        name: replace(
            each,
            reports=replace(
                each.reports,
                records_in=each.reports.records_in * share,
                useful_s=each.reports.useful_s * share,
                records_out={to: sent * share for to, sent in each.reports.records_out.items()},
            ),
        )
        for name, each in seen.activities.items()
    }
    return replace(seen, activities=made)


def test_what_useful_time_does_not_contain_multiplies_the_targets_once_for_each_plan():
    policy, plan = Ds2(most_offset=2), {"flatmap": 10, "count": 20}
    assert Ds2().decide(slowed(1000, plan, 0.8), None)[0] is None
    advice, memory = policy.decide(slowed(1000, plan, 0.8), None)
    assert advice.parallelism == {"flatmap": 13, "count": 25}
    assert memory == Offset(factor=1.25, plan=plan)
    advice, memory = policy.decide(slowed(1000, plan, 0.8), memory)
    assert (advice.parallelism, memory.factor) == ({"flatmap": 13, "count": 25}, 1.25)
    # The new plan reaches the target: the factor stays, and nothing shrinks.
    assert policy.decide(slowed(1000, {"flatmap": 13, "count": 25}, 1.0), memory) == (None, memory)
    _, memory = policy.decide(slowed(1000, {"flatmap": 13, "count": 25}, 0.5), memory)
    assert memory.factor == 2


def test_the_window_of_these_tests_loses_what_it_says():
    seen = slowed(1000, {"flatmap": 10, "count": 20}, 0.8)
    assert np.isclose(seen.activities["flatmap"].reports.records_in.sum(), 8000)


@pytest.mark.parametrize("wrong", [{"utilisation": 0}, {"catch_up_s": 0}, {"most_offset": 0.9}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(RefusedError, match="give"):
        Ds2(**wrong)
