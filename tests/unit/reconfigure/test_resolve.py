"""What a change means for a Configuration, and why it is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rechannel.errors import RefusedError, UnknownOperatorError
from rechannel.model.codec import decode, encode
from rechannel.model.configuration import Combine, OperatorConfiguration, Resources
from rechannel.model.hashspace import SPACE
from rechannel.model.routing import Routing
from rechannel.reconfigure import ask
from rechannel.reconfigure import resolve as resolve_module
from rechannel.reconfigure.changes import AssignLogic, AssignWorkload, Together
from rechannel.reconfigure.resolve import (
    MOST_BINS,
    MOST_CHANGES,
    MOST_TASKS,
    Facts,
    NoLimits,
    resolve,
)
from tests.support.changing import configuration, keyed, program

HERE = replace(
    configuration(counts=keyed(2, 4, placement={0: "7", 1: "8"}), sums=keyed(3, 6)),
    bounds={"in": 10},
)
FACTS = Facts(
    loads={"counts": (4.0, 4.0, 1.0, 1.0)},
    combinable=frozenset({"counts"}),
    sources=frozenset({"in", "other"}),
)


class Full:
    """A cluster that refuses everything."""

    def refuses_executors(self, total: int) -> str | None:
        return f"{total} executors are too many"

    def refuses_resources(self, resources: Resources) -> str | None:
        return f"no executor has {resources.cpus} CPUs"

    def refuses_place(self, executor: str) -> str | None:
        return f"there is no executor {executor}"


def after(change, facts=FACTS, operator="counts") -> OperatorConfiguration:
    """One operator after a change; all others are as they were."""
    changed = resolve(HERE, change, facts)
    assert {**changed.operators, operator: None} == {**HERE.operators, operator: None}
    assert replace(changed, operators=HERE.operators) == HERE
    return changed.operators[operator]


def test_workload_is_assigned_exactly_so():
    routing = Routing(starts=(0, 5, 9), owners=(2, 0, 2), tasks=3)
    counts = after(ask.assign_workload("counts", routing))
    assert (counts.routing, counts.tasks, counts.placement) == (routing, 3, {0: "7", 1: "8"})


def test_another_number_of_tasks_has_another_routing():
    counts = after(ask.rescale("counts", 4))
    assert counts.routing is not None
    assert (counts.tasks, sorted(counts.routing.owners)) == (4, [0, 1, 2, 3])


def test_tasks_that_go_lose_their_place():
    counts = after(ask.rescale("counts", 1))
    assert (counts.tasks, counts.placement) == (1, {0: "7"})


def test_an_operator_without_state_is_rescaled_as_well():
    assert after(ask.rescale("in", 5), operator="in") == OperatorConfiguration(tasks=5)


def test_measured_load_is_spread():
    assert after(ask.rebalance("counts")).routing.owners == (1, 0, 0, 1)  # type: ignore[union-attr]


def test_bins_move():
    assert after(ask.move("counts", [0, 3], 1)).routing.owners == (1, 0, 1, 1)  # type: ignore[union-attr]


def test_a_bin_is_cut_into_equal_parts():
    routing = after(ask.split("counts", 1, into=4)).routing
    assert routing is not None
    quarter = SPACE // 4
    assert routing.starts == tuple(quarter * i // 4 for i in (0, 4, 5, 6, 7, 8, 12))
    assert routing.owners == (0, 0, 0, 0, 0, 1, 1)


def test_merged_bins_are_at_the_task_of_the_first_of_them():
    routing = after(ask.merge("counts", [2, 1])).routing
    assert routing is not None
    assert routing.starts == (0, SPACE // 4, SPACE * 3 // 4)
    assert routing.owners == (0, 0, 1)


def test_combining_is_set():
    assert after(ask.combine("counts", "off")).combine is Combine.OFF


def test_resources_are_assigned_and_the_usual_ones_are_none():
    assert after(ask.assign_resources("counts", cpus=2)).resources == Resources(cpus=2)
    once = resolve(HERE, ask.assign_resources("counts", cpus=2), FACTS)
    assert resolve(once, ask.assign_resources("counts"), FACTS) == HERE


def test_a_task_is_placed_and_freed():
    assert after(ask.place("counts", 0, "9")).placement == {0: "9", 1: "8"}
    assert after(ask.place("counts", 0, None)).placement == {1: "8"}


def test_numbers_of_the_job_are_set():
    change = [
        ask.set_interval(50),
        ask.set_in_flight(3),
        ask.executors(4),
        ask.set_bound("other", 5),
    ]
    changed = resolve(HERE, Together(changes=tuple(change)), FACTS)
    assert changed == replace(
        HERE, interval_ms=50, in_flight=3, executors=4, bounds={"in": 10, "other": 5}
    )
    assert resolve(HERE, ask.set_bound("in", None), FACTS).bounds == {}


def test_bytes_of_a_source_are_bounded_beside_its_rows():
    changed = resolve(HERE, ask.set_bound("other", None, bytes=1 << 20), FACTS)
    assert changed == replace(HERE, byte_bounds={"other": 1 << 20})
    assert decode(type(HERE), encode(changed)) == changed
    assert resolve(changed, ask.set_bound("other", None), FACTS) == HERE


def test_a_program_brings_and_takes_operators_and_sets_versions_of_logic():
    new = keyed(1, 3)
    change = program(7, operators={"new": encode(new)}, removed=("sums",), logic={"counts": 5})
    changed = resolve(HERE, change, FACTS)
    assert changed.dataflow == 7
    assert set(changed.operators) == {"in", "counts", "new"}
    assert changed.operators["new"] == new
    assert changed.operators["counts"] == replace(HERE.operators["counts"], logic=5)


def test_a_program_takes_over_from_the_one_that_it_was_made_from_and_no_other():
    assert resolve(configuration(), program(3, base=1), Facts()).dataflow == 3
    with pytest.raises(RefusedError, match=r"made from version 2 .* there is version 1"):
        resolve(configuration(), program(3, base=2), Facts())


def test_changes_of_a_list_are_made_one_behind_the_other():
    both = Together(changes=(ask.rescale("counts", 3), ask.move("counts", 0, 2)))
    assert resolve(HERE, both, FACTS).operators["counts"].routing.owners[0] == 2  # type: ignore[union-attr]
    with pytest.raises(RefusedError, match="tasks 0 to 1, not 2"):
        resolve(HERE, Together(changes=both.changes[::-1]), FACTS)


REFUSED = [
    (ask.rescale("in", MOST_TASKS + 1), f"'in': {MOST_TASKS + 1} tasks are too many"),
    (ask.rescale("counts", 5), "'counts' has 4 bins.*not 5; split bins first"),
    (ask.rebalance("in"), r"'in' keeps no state.*\['counts', 'sums'\]"),
    (ask.rebalance("sums"), "'sums' has received no rows"),
    (ask.move("counts", [1, 4, 5], 1), r"'counts' has bins 0 to 3, not \[4, 5\]"),
    (ask.move("counts", 0, 2), "'counts' has tasks 0 to 1, not 2; rescale"),
    (ask.split("counts", 4), r"'counts' has bins 0 to 3, not \[4\]"),
    (ask.merge("counts", [0, 2]), r"bins \[0, 2\] are no neighbours.*\[0, 1\]"),
    (ask.merge("counts", [1, 1]), "are no neighbours"),
    (ask.merge("counts", [2, 3, 4]), r"not \[4\]"),
    (ask.merge("counts", [0, 1, 2, 3]), "1 bins could not feed its 2 tasks"),
    (ask.combine("sums", "on"), r"'sums' cannot pre-aggregate.*\['counts'\]"),
    (ask.place("counts", 2, "7"), "'counts' has tasks 0 to 1, not 2"),
    (ask.place("in", 0, "7"), "'in' keeps no state"),
    (ask.set_bound("nowhere", 5), r"no source 'nowhere'; there are \['in', 'other'\]"),
    (AssignLogic(operator="counts", function="a:b"), "cannot be resolved here"),
    (
        AssignWorkload(operator="counts", starts=(0, 5), owners=(0,), tasks=1),
        "'counts': routing needs at least one bin",
    ),
    (
        AssignWorkload(operator="counts", starts=(0,), owners=(0,), tasks=MOST_TASKS + 1),
        f"'counts': 1 bins at {MOST_TASKS + 1} tasks are too many",
    ),
    (
        AssignWorkload(
            operator="counts",
            starts=tuple(range(MOST_BINS + 1)),
            owners=(0,) * (MOST_BINS + 1),
            tasks=1,
        ),
        f"{MOST_BINS + 1} bins at 1 tasks are too many",
    ),
]


@pytest.mark.parametrize(("change", "told"), REFUSED, ids=[told[:30] for _, told in REFUSED])
def test_a_refusal_names_the_operator_and_says_why(change, told):
    with pytest.raises(RefusedError, match=told):
        resolve(HERE, change, FACTS)


@pytest.mark.parametrize(
    "change",
    [
        ask.rescale("nobody", 2),
        ask.rebalance("nobody"),
        ask.move("nobody", 0, 0),
        ask.split("nobody", 0),
        ask.merge("nobody", [0, 1]),
        ask.place("nobody", 0, None),
        ask.combine("nobody", "on"),
        ask.assign_resources("nobody"),
        ask.assign_workload("nobody", Routing.even(bins=1, tasks=1)),
    ],
    ids=str,
)
def test_an_operator_that_is_not_there_is_named_with_those_that_are(change):
    with pytest.raises(UnknownOperatorError, match="'nobody'; there are 'counts', 'in', 'sums'"):
        resolve(HERE, change, FACTS)


@pytest.mark.parametrize(
    ("loads", "told"), [((1.0, 1.0), "no rows"), ((0.0, 0.0, 0.0, 0.0), "no rows")]
)
def test_load_of_other_bins_or_no_load_at_all_is_nothing_to_balance(loads, told):
    with pytest.raises(RefusedError, match=told):
        resolve(HERE, ask.rebalance("counts"), Facts(loads={"counts": loads}))


def test_a_bin_of_few_hashes_is_not_cut_into_more_parts_than_it_has():
    narrow = configuration(
        counts=OperatorConfiguration(
            tasks=1, routing=Routing(starts=(0, 3), owners=(0, 0), tasks=1)
        )
    )
    assert resolve(narrow, ask.split("counts", 0, into=3), FACTS).operators[
        "counts"
    ].routing.starts == (0, 1, 2, 3)  # type: ignore[union-attr]
    with pytest.raises(RefusedError, match=r"cannot be cut into 4: it holds 3 hashes.*combine"):
        resolve(narrow, ask.split("counts", 0, into=4), FACTS)


def test_there_are_only_so_many_bins():
    wide = configuration(counts=keyed(1, MOST_BINS))
    with pytest.raises(RefusedError, match=f"at most {MOST_BINS} bins"):
        resolve(wide, ask.split("counts", 0), FACTS)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (ask.executors(99), "^99 executors are too many$"),
        (ask.assign_resources("counts", cpus=64), "^operator 'counts': no executor has 64 CPUs$"),
        (ask.place("counts", 0, "99"), "^operator 'counts': there is no executor 99$"),
    ],
)
def test_what_the_cluster_refuses_is_refused_in_its_words(change, told):
    with pytest.raises(RefusedError, match=told):
        resolve(HERE, change, Facts(limits=Full()))


def test_freeing_a_task_asks_no_cluster():
    assert resolve(HERE, ask.place("counts", 0, None), Facts(limits=Full())) != HERE


def test_no_cluster_refuses_nothing():
    limits = NoLimits()
    assert limits.refuses_executors(10**6) is None
    assert limits.refuses_resources(Resources(cpus=10**6)) is None
    assert limits.refuses_place("nowhere") is None


def test_a_list_is_bounded_and_so_are_the_bins_that_it_goes_through(monkeypatch):
    many = [ask.set_interval(number) for number in range(MOST_CHANGES + 1)]
    with pytest.raises(RefusedError, match=f"{len(many)} changes .* at most {MOST_CHANGES}"):
        resolve(HERE, Together(changes=tuple(many)), FACTS)
    assert resolve(HERE, Together(changes=tuple(many[1:])), FACTS).interval_ms == MOST_CHANGES
    monkeypatch.setattr(resolve_module, "MOST_BINS_IN_ALL", 12)
    cut = ask.split("counts", 0, into=8)  # 11 bins
    assert resolve(HERE, cut, FACTS).operators["counts"].routing.bins == 11  # type: ignore[union-attr]
    with pytest.raises(RefusedError, match="a list of 2 changes goes through more than 12 bins"):
        resolve(HERE, Together(changes=(cut, ask.merge("counts", [0, 1]))), FACTS)
