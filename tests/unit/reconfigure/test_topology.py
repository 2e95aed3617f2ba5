"""The meta topology of single changes: sets of tasks, words, picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from rechannel import changes
from rechannel.model.codec import decode, encode
from rechannel.model.configuration import Configuration, OperatorConfiguration
from rechannel.reconfigure import strategies
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.plan import plan
from rechannel.reconfigure.steps import Sizes, route
from rechannel.reconfigure.topology.boxes import MOST_BOXES, WIDTH, placed
from rechannel.reconfigure.topology.meta import MetaTopology
from rechannel.reconfigure.topology.pruning import meta_topology
from rechannel.reconfigure.topology.values import (
    Channels,
    OperatorTopology,
    StateEdge,
    Tasks,
)
from rechannel.reconfigure.topology.words import MOST_EDGES, MOST_OPERATORS, MOST_RANGES
from tests.support.changing import Paper, configuration, keyed

CHANNELS = Channels.both({"in": (), "counts": ("in",), "sums": ("counts",)})
SVG = "{http://www.w3.org/2000/svg}"


def topology(change: Change, where: Configuration | None = None) -> MetaTopology:
    paper = Paper() if where is None else Paper(configuration=where)
    made = plan(paper.state, change, strategies.all_at_once(), paper.now, 0.5, CHANNELS).topology
    assert made is not None
    assert decode(MetaTopology, encode(made)) == made
    return made


def swapped() -> MetaTopology:
    """Two tasks change places, a third one stays."""
    now = keyed(3, 6).routing
    assert now is not None
    change = changes.assign_workload("counts", now.with_owners({0: 1, 2: 0}))
    return topology(change, configuration(counts=keyed(3, 6)))


def edge(source: int, target: int, bins: int = 1, size: float = 10.0) -> StateEdge:
    return StateEdge(source=source, target=target, bins=bins, size=size)


# Values --------------------------------------------------------------------------------------------


def test_tasks_are_kept_as_ranges():
    tasks = Tasks.of([7, 1, 0, 2, 7])
    assert tasks.ranges == ((0, 3), (7, 8))
    assert (list(tasks), len(tasks), 7 in tasks, 3 in tasks) == ([0, 1, 2, 7], 4, True, False)
    assert decode(Tasks, encode(tasks)) == tasks
    assert not Tasks()


@pytest.mark.parametrize("ranges", [((2, 1),), ((1, 1),), ((0, 1), (1, 2)), ((3, 4), (0, 1))])
def test_ranges_ascend_and_do_not_touch(ranges):
    with pytest.raises(ValueError, match="must ascend and not touch"):
        Tasks(ranges)


# Rules ---------------------------------------------------------------------------------------------


def test_tasks_that_take_no_part_are_unaffected():
    found = topology(changes.move("counts", [0], 1), configuration(counts=keyed(4)))
    assert found.of("counts") == OperatorTopology(
        operator="counts",
        upstream=("in",),
        unaffected=Tasks.of([2, 3]),
        kept=Tasks.of([0, 1]),
        state=(edge(0, 1),),
    )
    assert found.of("in").untouched
    with pytest.raises(KeyError):
        found.of("nobody")


def test_rescaling_adds_and_removes_tasks():
    more = topology(changes.rescale("counts", 4)).of("counts")
    assert (list(more.kept), list(more.new), list(more.gone)) == ([0, 1], [2, 3], [])
    fewer = topology(changes.rescale("counts", 1)).of("counts")
    assert (list(fewer.kept), list(fewer.new), list(fewer.gone)) == ([0], [], [1])
    source = topology(changes.rescale("in", 5)).of("in")
    assert (list(source.unaffected), list(source.new), source.state) == ([0, 1], [2, 3, 4], ())


def test_a_cycle_of_transfers_keeps_one_task_apart():
    found = swapped().of("counts")
    assert (list(found.kept), list(found.replaced), list(found.unaffected)) == ([0], [1], [2])


def test_finer_and_coarser_bins_and_placement_change_no_state():
    for change in (
        changes.split("counts", 0),
        changes.merge("counts", [0, 1]),
        changes.place("counts", 0, "1"),
        changes.set_interval(5),
    ):
        assert topology(change).untouched, change


def test_state_that_is_rewritten_is_an_edge_to_itself():
    found = topology(changes.rewrite("counts")).of("counts")
    assert list(found.kept) == [0, 1]
    assert found.state == (edge(0, 0, 4, 40.0), edge(1, 1, 4, 40.0))


def test_another_program_has_operators_that_come_and_go():
    old, new = configuration(counts=keyed()), configuration(sums=keyed(3))
    channels = Channels(before={"counts": ("in",), "in": ()}, after={"sums": ("in",), "in": ()})
    found = meta_topology(channels, old, new, route(old, new, Sizes()).moves)
    assert [one.operator for one in found.operators] == ["in", "counts", "sums"]
    assert (list(found.of("counts").gone), found.of("counts").upstream_before) == ([0, 1], ("in",))
    assert (list(found.of("sums").new), found.of("sums").upstream) == ([0, 1, 2], ("in",))


def test_an_operator_that_gets_state_is_another_one():
    old = configuration(counts=OperatorConfiguration(tasks=2))
    new = configuration(counts=keyed(3))
    found = meta_topology(CHANNELS, old, new, route(old, new, Sizes()).moves).of("counts")
    assert (list(found.replaced), list(found.new), found.state) == ([0, 1], [2], ())


def test_operators_that_change_places_are_not_all_one_vertex():
    where = configuration(counts=keyed(), sums=keyed())
    around = {"in": (), "sums": ("in",), "counts": ("sums",)}
    found = meta_topology(Channels(before=CHANNELS.before, after=around), where, where, ())
    # As one vertex, counts would send to sums before, and receive from it after its state went on.
    assert list(found.of("counts").replaced) == [0, 1]
    assert list(found.of("sums").unaffected) == [0, 1]
    assert found.of("counts").upstream_before == ("in",)


# Words ---------------------------------------------------------------------------------------------


def test_a_change_is_told_in_a_line_per_operator():
    assert str(topology(changes.rescale("counts", 4))).splitlines() == [
        "tasks of counts: 0-1 kept, 2-3 new; state 0 -> 2 (2 bins, 20 bytes), 1 -> 3 (2 bins, 20 bytes)",
        "unaffected: all tasks of in, sums",
    ]
    assert str(topology(changes.rewrite("sums"))).splitlines()[0] == (
        "tasks of sums: 0-1 kept; state 0 rewritten (4 bins, 40 bytes), 1 rewritten (4 bins, 40 bytes)"
    )
    assert str(topology(changes.set_interval(5))) == "unaffected: all tasks of in, counts, sums"


def test_very_many_tasks_operators_and_edges_are_counted():
    many = MetaTopology(
        operators=(
            OperatorTopology(
                operator="counts",
                kept=Tasks.of(range(0, 5000, 2)),
                state=tuple(edge(i, i + 2, size=float(i)) for i in range(0, 4000, 2)),
            ),
            *(OperatorTopology(operator=f"o{i}", unaffected=Tasks.of([0])) for i in range(50)),
        )
    )
    one, other = str(many).splitlines()
    assert one.startswith("tasks of counts: 0 2 4 6 8 10 ... (2500 tasks) kept; state 3998 -> 4000")
    assert one.endswith(f" and {2000 - MOST_EDGES} more")
    assert one.count("->") == MOST_EDGES
    assert one.partition(" ...")[0].count(" ") == 2 + MOST_RANGES
    assert other.endswith(f"o{MOST_OPERATORS - 1} and {50 - MOST_OPERATORS} more")


# Picture -------------------------------------------------------------------------------------------


def drawn(found: MetaTopology) -> ET.Element:
    return ET.fromstring(found.svg())


def classes(found: MetaTopology) -> list[str]:
    return [g.get("class", "") for g in drawn(found).iter(f"{SVG}g") if g.get("class")]


def test_a_picture_has_a_box_per_vertex_and_an_arc_per_transfer():
    assert classes(swapped()) == [*["unaffected"] * 3, "kept", "replaced old", "replaced"]
    arcs = [p for p in drawn(swapped()).iter(f"{SVG}path") if p.get("class") == "state"]
    assert len(arcs) == 2
    titles = [title.text for title in drawn(swapped()).iter(f"{SVG}title")]
    assert "counts 0 -> 1: 1 bin, 10 bytes" in titles
    assert "counts: task 1 (replaced, old)" in titles


def test_channels_join_tasks_that_are_there_at_the_same_time():
    found = topology(changes.rescale("counts", 1), configuration(counts=keyed(), sums=keyed()))
    paths = [p.get("class") for p in drawn(found).iter(f"{SVG}path") if not p.get("marker-end")]
    # in (2) to counts (1 kept, 1 gone), counts to sums (2); what leaves or reaches the gone task is dashed.
    assert paths.count("old") == 2 + 2
    assert paths.count(None) - 1 == 2 + 2  # one is the arrow's


def test_a_picture_of_very_many_tasks_is_small():
    found = topology(changes.rescale("counts", 6000), configuration(counts=keyed(4096, 8192)))
    boxes = [box for group in placed(found.operators).groups for box in group.boxes]
    assert sum(len(box.tasks) for box in boxes if box.operator == "counts") == 6000
    assert len(boxes) <= 2 * MOST_BOXES
    assert len(found.svg()) < 10_000


def test_boxes_do_not_overlap():
    both = {"a": keyed(6), "b": keyed(3), "c": keyed(2)}
    upstream = {"in": (), "a": ("in",), "b": ("in",), "c": ("a", "b")}
    found = meta_topology(Channels.both(upstream), configuration(**both), configuration(**both), ())
    plane = placed(found.operators)
    rows: dict[float, list[float]] = {}
    for group in plane.groups:
        for box in group.boxes:
            rows.setdefault(box.y, []).append(box.x)
    assert sorted(map(len, rows.values())) == [2, 2, 9]
    for xs in rows.values():
        ordered = sorted(xs)
        assert all(b - a > WIDTH for a, b in pairwise(ordered))
        assert ordered[0] >= 0
        assert ordered[-1] + WIDTH <= plane.width


def test_names_are_escaped():
    found = topology(changes.set_interval(5), configuration(**{"<a> & b": keyed()}))
    assert "&lt;a&gt; &amp; b" in found.svg()
    assert drawn(found) is not None


def test_no_operator_is_an_empty_picture():
    assert drawn(MetaTopology()).get("height") == "16"
