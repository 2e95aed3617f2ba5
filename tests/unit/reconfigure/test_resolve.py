"""What a change means for a Configuration, and why it is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rechannel import changes
from rechannel.errors import RefusedError, UnknownOperatorError
from rechannel.model.codec import decode, encode
from rechannel.model.configuration import Combine, OperatorConfiguration, Resources
from rechannel.model.hashspace import SPACE
from rechannel.model.routing import Routing
from rechannel.reconfigure.changes import together
from rechannel.reconfigure.changes.operators import MOST_BINS, MOST_TASKS
from rechannel.reconfigure.changes.program import AssignLogic
from rechannel.reconfigure.changes.tasks import AssignWorkload
from rechannel.reconfigure.changes.together import MOST_CHANGES, Together
from rechannel.reconfigure.stream_facts import NoLimits, StreamFacts
from tests.support.changing import configuration, keyed, program

HERE = replace(
    configuration(counts=keyed(2, 4, placement={0: "7", 1: "8"}), sums=keyed(3, 6)),
    bounds={"in": 10},
)
FACTS = StreamFacts(
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
    changed = change.resolved(HERE, facts)
    assert {**changed.operators, operator: None} == {**HERE.operators, operator: None}
    assert replace(changed, operators=HERE.operators) == HERE
    return changed.operators[operator]


def test_workload_is_assigned_exactly_so():
    routing = Routing(starts=(0, 5, 9), owners=(2, 0, 2), tasks=3)
    counts = after(changes.assign_workload("counts", routing))
    assert (counts.routing, counts.tasks, counts.placement) == (routing, 3, {0: "7", 1: "8"})


def test_another_number_of_tasks_has_another_routing():
    counts = after(changes.rescale("counts", 4))
    assert counts.routing is not None
    assert (counts.tasks, sorted(counts.routing.owners)) == (4, [0, 1, 2, 3])


def test_tasks_that_go_lose_their_place():
    counts = after(changes.rescale("counts", 1))
    assert (counts.tasks, counts.placement) == (1, {0: "7"})


def test_an_operator_without_state_is_rescaled_as_well():
    assert after(changes.rescale("in", 5), operator="in") == OperatorConfiguration(tasks=5)


def test_measured_load_is_spread():
    assert after(changes.rebalance("counts")).routing.owners == (1, 0, 0, 1)  # type: ignore[union-attr]


def test_bins_move():
    assert after(changes.move("counts", [0, 3], 1)).routing.owners == (1, 0, 1, 1)  # type: ignore[union-attr]


def test_a_bin_is_cut_into_equal_parts():
    routing = after(changes.split("counts", 1, into=4)).routing
    assert routing is not None
    quarter = SPACE // 4
    assert routing.starts == tuple(quarter * i // 4 for i in (0, 4, 5, 6, 7, 8, 12))
    assert routing.owners == (0, 0, 0, 0, 0, 1, 1)


def test_merged_bins_are_at_the_task_of_the_first_of_them():
    routing = after(changes.merge("counts", [2, 1])).routing
    assert routing is not None
    assert routing.starts == (0, SPACE // 4, SPACE * 3 // 4)
    assert routing.owners == (0, 0, 1)


def test_combining_is_set():
    assert after(changes.combine("counts", "off")).combine is Combine.OFF


def test_resources_are_assigned_and_the_usual_ones_are_none():
    assert after(changes.assign_resources("counts", cpus=2)).resources == Resources(cpus=2)
    once = changes.assign_resources("counts", cpus=2).resolved(HERE, FACTS)
    assert changes.assign_resources("counts").resolved(once, FACTS) == HERE


def test_a_task_is_placed_and_freed():
    assert after(changes.place("counts", 0, "9")).placement == {0: "9", 1: "8"}
    assert after(changes.place("counts", 0, None)).placement == {1: "8"}


def test_numbers_of_the_job_are_set():
    change = [
        changes.set_interval(50),
        changes.set_in_flight(3),
        changes.executors(4),
        changes.set_bound("other", 5),
    ]
    changed = Together(changes=tuple(change)).resolved(HERE, FACTS)
    assert changed == replace(
        HERE, interval_ms=50, in_flight=3, executors=4, bounds={"in": 10, "other": 5}
    )
    assert changes.set_bound("in", None).resolved(HERE, FACTS).bounds == {}


def test_bytes_of_a_source_are_bounded_beside_its_rows():
    changed = changes.set_bound("other", None, bytes=1 << 20).resolved(HERE, FACTS)
    assert changed == replace(HERE, byte_bounds={"other": 1 << 20})
    assert decode(type(HERE), encode(changed)) == changed
    assert changes.set_bound("other", None).resolved(changed, FACTS) == HERE


def test_a_program_brings_and_takes_operators_and_sets_versions_of_logic():
    new = keyed(1, 3)
    change = program(7, operators={"new": encode(new)}, removed=("sums",), logic={"counts": 5})
    changed = change.resolved(HERE, FACTS)
    assert changed.dataflow == 7
    assert set(changed.operators) == {"in", "counts", "new"}
    assert changed.operators["new"] == new
    assert changed.operators["counts"] == replace(HERE.operators["counts"], logic=5)


def test_a_program_takes_over_from_the_one_that_it_was_made_from_and_no_other():
    assert program(3, base=1).resolved(configuration(), StreamFacts()).dataflow == 3
    with pytest.raises(RefusedError, match=r"made from version 2 .* present version is 1"):
        program(3, base=2).resolved(configuration(), StreamFacts())


def test_changes_of_a_list_are_made_one_behind_the_other():
    both = Together(changes=(changes.rescale("counts", 3), changes.move("counts", 0, 2)))
    assert both.resolved(HERE, FACTS).operators["counts"].routing.owners[0] == 2  # type: ignore[union-attr]
    with pytest.raises(RefusedError, match="tasks 0 to 1, not 2"):
        Together(changes=both.changes[::-1]).resolved(HERE, FACTS)


REFUSED = [
    (changes.rescale("in", MOST_TASKS + 1), f"'in': {MOST_TASKS + 1} tasks are too many"),
    (changes.rescale("counts", 5), "'counts' has 4 bins.*not 5; split bins first"),
    (changes.rebalance("in"), r"'in' keeps no state.*\['counts', 'sums'\]"),
    (changes.rebalance("sums"), "'sums' has received no rows"),
    (changes.move("counts", [1, 4, 5], 1), r"'counts' has bins 0 to 3, not \[4, 5\]"),
    (changes.move("counts", 0, 2), "'counts' has tasks 0 to 1, not 2; rescale"),
    (changes.split("counts", 4), r"'counts' has bins 0 to 3, not \[4\]"),
    (changes.merge("counts", [0, 2]), r"bins \[0, 2\] are not neighbours.*\[0, 1\]"),
    (changes.merge("counts", [1, 1]), "are not neighbours"),
    (changes.merge("counts", [2, 3, 4]), r"not \[4\]"),
    (changes.merge("counts", [0, 1, 2, 3]), "1 bins are too few for its 2 tasks"),
    (changes.combine("sums", "on"), r"'sums' cannot pre-aggregate.*\['counts'\]"),
    (changes.place("counts", 2, "7"), "'counts' has tasks 0 to 1, not 2"),
    (changes.place("in", 0, "7"), "'in' keeps no state"),
    (changes.set_bound("nowhere", 5), r"no source 'nowhere'; there are \['in', 'other'\]"),
    (AssignLogic(operator="counts", function="a:b"), "needs the running job"),
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
        change.resolved(HERE, FACTS)


@pytest.mark.parametrize(
    "change",
    [
        changes.rescale("nobody", 2),
        changes.rebalance("nobody"),
        changes.move("nobody", 0, 0),
        changes.split("nobody", 0),
        changes.merge("nobody", [0, 1]),
        changes.place("nobody", 0, None),
        changes.combine("nobody", "on"),
        changes.assign_resources("nobody"),
        changes.assign_workload("nobody", Routing.even(bins=1, tasks=1)),
    ],
    ids=str,
)
def test_an_operator_that_is_not_there_is_named_with_those_that_are(change):
    with pytest.raises(UnknownOperatorError, match="'nobody'; there are 'counts', 'in', 'sums'"):
        change.resolved(HERE, FACTS)


@pytest.mark.parametrize(
    ("loads", "told"), [((1.0, 1.0), "no rows"), ((0.0, 0.0, 0.0, 0.0), "no rows")]
)
def test_load_of_other_bins_or_no_load_at_all_is_nothing_to_balance(loads, told):
    with pytest.raises(RefusedError, match=told):
        changes.rebalance("counts").resolved(HERE, StreamFacts(loads={"counts": loads}))


def test_a_bin_of_few_hashes_is_not_cut_into_more_parts_than_it_has():
    narrow = configuration(
        counts=OperatorConfiguration(
            tasks=1, routing=Routing(starts=(0, 3), owners=(0, 0), tasks=1)
        )
    )
    assert changes.split("counts", 0, into=3).resolved(narrow, FACTS).operators[
        "counts"
    ].routing.starts == (0, 1, 2, 3)  # type: ignore[union-attr]
    with pytest.raises(RefusedError, match=r"cannot be cut into 4: it holds 3 hashes.*combine"):
        changes.split("counts", 0, into=4).resolved(narrow, FACTS)


def test_there_are_only_so_many_bins():
    wide = configuration(counts=keyed(1, MOST_BINS))
    with pytest.raises(RefusedError, match=f"at most {MOST_BINS} bins"):
        changes.split("counts", 0).resolved(wide, FACTS)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (changes.executors(99), "^99 executors are too many$"),
        (
            changes.assign_resources("counts", cpus=64),
            "^operator 'counts': no executor has 64 CPUs$",
        ),
        (changes.place("counts", 0, "99"), "^operator 'counts': there is no executor 99$"),
    ],
)
def test_what_the_cluster_refuses_is_refused_in_its_words(change, told):
    with pytest.raises(RefusedError, match=told):
        change.resolved(HERE, StreamFacts(limits=Full()))


def test_freeing_a_task_asks_no_cluster():
    assert changes.place("counts", 0, None).resolved(HERE, StreamFacts(limits=Full())) != HERE


def test_no_cluster_refuses_nothing():
    limits = NoLimits()
    assert limits.refuses_executors(10**6) is None
    assert limits.refuses_resources(Resources(cpus=10**6)) is None
    assert limits.refuses_place("nowhere") is None


def test_a_list_is_bounded_and_so_are_the_bins_that_it_goes_through(monkeypatch):
    many = [changes.set_interval(number) for number in range(MOST_CHANGES + 1)]
    with pytest.raises(RefusedError, match=f"{len(many)} changes .* at most {MOST_CHANGES}"):
        Together(changes=tuple(many)).resolved(HERE, FACTS)
    assert Together(changes=tuple(many[1:])).resolved(HERE, FACTS).interval_ms == MOST_CHANGES
    monkeypatch.setattr(together, "MOST_BINS_IN_ALL", 12)
    cut = changes.split("counts", 0, into=8)  # 11 bins
    assert cut.resolved(HERE, FACTS).operators["counts"].routing.bins == 11  # type: ignore[union-attr]
    with pytest.raises(RefusedError, match="a list of 2 changes visits more than 12 bins"):
        Together(changes=(cut, changes.merge("counts", [0, 1]))).resolved(HERE, FACTS)
