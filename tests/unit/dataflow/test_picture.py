"""Pictures of a dataflow: layout, text, SVG."""

from __future__ import annotations

import itertools
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.dataflow.graph.nodes import Dataflow
from rechannel.dataflow.pictures.captions import shorten
from rechannel.dataflow.pictures.layout import centres, lay_out
from rechannel.dataflow.pictures.svg import draw_svg
from rechannel.dataflow.pictures.text import arrange, draw_text
from rechannel.dataflow.streams.aggregates import count
from rechannel.dataflow.streams.reader import read
from rechannel.dataflow.streams.stream import Stream, dataflow_of
from tests.support.flights import flights, same


def chain() -> Dataflow:
    delays = flights().transform(same).key_by("carrier").aggregate(n=count(), name="delays")
    return dataflow_of(delays.write.parquet("out/delays"))


def branches() -> Dataflow:
    stream = flights()
    late = stream.filter("dep_delay > 0")
    early = stream.filter(lambda row: row.dep_delay).map_batches(same)
    delays = late.union(early).key_by("carrier").aggregate(n=count(), name="delays", tasks=4)
    seen = late.key_by("origin", "carrier").track(same, state="n INT", name="seen", tasks=1)
    return dataflow_of(delays.write.parquet("out/delays"), delays.write.console(), seen)


CHAIN = """\
┌─────────────────────────────────┐
│ flights                         │
│ parquet data/flights/*.parquet  │
└────────────────┬────────────────┘
                 ▼
      ┌─────────────────────┐
      │ flights.transform-1 │
      │ transform same      │
      └──────────┬──────────┘
                 ▼
     ┌───────────────────────┐
     │ delays                │
     │ aggregate by carrier  │
     └───────────┬───────────┘
                 ▼
      ┌─────────────────────┐
      │ parquet-delays      │
      │ parquet out/delays  │
      └─────────────────────┘"""

BRANCHES = """\
                  ┌─────────────────────────────────┐
                  │ flights                         │
                  │ parquet data/flights/*.parquet  │
                  └────────────────┬────────────────┘
            ┌──────────────────────┴─────────────────────┐
            ▼                                            ▼
┌───────────────────────┐                     ┌─────────────────────┐
│ flights.filter-1      │                     │ flights.filter-1~2  │
│ filter dep_delay > 0  │                     │ filter              │
└───────────┬───────────┘                     └──────────┬──────────┘
 ┌──────────┴──────────┐                                 │
 │                     ▼                                 ▼
 │   ┌───────────────────────────────────┐   ┌───────────────────────┐
 │   │ seen                              │   │ flights.map_batches-1 │
 │   │ track by origin, carrier · 1 task │   │ map_batches same      │
 │   └───────────────────────────────────┘   └───────────┬───────────┘
 └────────────────────────┐     ┌────────────────────────┘
                          ▼     ▼
                    ┌─────────────────┐
                    │ flights.union-1 │
                    │ union           │
                    └────────┬────────┘
                             ▼
            ┌─────────────────────────────────┐
            │ delays                          │
            │ aggregate by carrier · 4 tasks  │
            └────────────────┬────────────────┘
                 ┌───────────┴────────────┐
                 ▼                        ▼
      ┌─────────────────────┐   ┌───────────────────┐
      │ parquet-delays      │   │ delays.console    │
      │ parquet out/delays  │   │ console, 20 rows  │
      └─────────────────────┘   └───────────────────┘"""


def test_a_chain_is_drawn_straight_down() -> None:
    assert draw_text(chain()) == CHAIN


def test_branches_part_and_meet_and_long_lines_pass_beside_boxes() -> None:
    assert draw_text(branches()) == BRANCHES


def test_the_current_number_of_tasks_counts_over_what_was_asked_for() -> None:
    text = draw_text(branches(), {"delays": 16, "flights": 5})

    assert "aggregate by carrier · 16 tasks" in text
    assert "parquet data/…ghts/*.parquet · 5 tasks" in text
    assert "4 tasks" not in text
    assert "· 1 task │" in text


def test_nothing_draws_nothing() -> None:
    nothing = dataflow_of()

    assert draw_text(nothing) == ""
    assert ElementTree.fromstring(draw_svg(nothing)).tag.endswith("svg")


def test_crossing_lines_show_as_crossings() -> None:
    one, other = read().memory("n INT", name="one"), read().memory("n INT", name="two")
    rows = draw_text(
        dataflow_of(
            one.union(other, name="x").write.noop(name="p"),
            other.union(one, name="y").write.noop(name="q"),
        )
    )

    assert rows.count("▼") == 6
    assert "┼" in rows


@pytest.mark.parametrize(
    ("text", "short"), [("abcdefg", "abcdefg"), ("abcdefgh", "abc…fgh"), ("a" * 99, "aaa…aaa")]
)
def test_long_texts_lose_their_middle(text: str, short: str) -> None:
    assert shorten(text, 7) == short


def test_every_kind_of_node_has_a_caption() -> None:
    stream = flights().map(lambda row: row, "n INT").flat_map(same, "n INT").filter(same)
    text = draw_text(
        dataflow_of(
            stream.key_by("n").track_batches(same, state="m INT", name="t").write.memory("m"),
            read()
            .generator(same, schema="n INT", rows_per_second=5)
            .transform(lambda df: df)
            .write.for_each_batch(same),
        )
    )

    for part in [
        "│ map ",
        "│ flat_map same ",
        "│ filter same ",
        "│ track by n ",
        "│ memory m ",
        "│ generator same 5 rows/s ",
        "│ transform ",
        "│ for each batch same ",
    ]:
        assert part in text


def svg_boxes(text: str) -> list[tuple[float, float, float, float]]:
    root = ElementTree.fromstring(text)
    return [
        (float(r.get("x", "")), float(r.get("y", "")), float(r.get("width", "")), 48.0)
        for r in root.iter("{http://www.w3.org/2000/svg}rect")
    ]


def test_an_svg_stands_alone() -> None:
    text = draw_svg(branches(), {"delays": 16})
    root = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"

    assert root.tag == f"{space}svg"
    assert len(svg_boxes(text)) == len(branches().nodes)
    kinds = [group.get("class") for group in root.iter(f"{space}g")]
    assert kinds.count("source") == 1
    assert kinds.count("stateful") == 2
    assert kinds.count("sink") == 2
    assert text.count("marker-end") == 9
    assert "aggregate by carrier · 16 tasks" in text
    assert "filter dep_delay &gt; 0" in text
    assert not re.search(r"href|url\((?!#)", text)


actions = st.lists(
    st.tuples(st.sampled_from(["source", "map", "union", "track"]), st.integers(0, 9)),
    min_size=1,
    max_size=14,
)


def random_flow(steps: list[tuple[str, int]]) -> Dataflow:
    """Any graph: every step uses some of the streams made before; loose ends get a sink."""
    streams: list[Stream] = [read().memory("n INT", name="s")]
    for number, (kind, which) in enumerate(steps):
        stream = streams[which % len(streams)]
        if kind == "source":
            streams.append(read().memory("n INT", name=f"source {number}"))
        elif kind == "map":
            streams.append(stream.map_batches(same, name=f"m{number}"))
        elif kind == "union":
            other = streams[(which * 7 + 3) % len(streams)]
            streams.append(stream.union(other, name=f"a union of many {number}"))
        else:
            keyed = stream.key_by("n").track(same, state="m INT", name=f"t{number}")
            streams.append(keyed.map_batches(same, "n INT", name=f"b{number}"))
    return dataflow_of(*(s.write.noop(name=f"out {i}") for i, s in enumerate(streams)))


def apart(one: Any, other: Any) -> bool:
    (x, y, w, h), (u, v, m, n) = one, other
    return bool(x + w <= u or u + m <= x or y + h <= v or v + n <= y)


@given(actions)
def test_boxes_of_any_graph_are_whole_and_apart(steps: list[tuple[str, int]]) -> None:
    dataflow = random_flow(steps)
    rows = draw_text(dataflow).splitlines()
    boxes = svg_boxes(draw_svg(dataflow))

    for node in dataflow.nodes:
        row = next(i for i, line in enumerate(rows) if f"│ {node.name} " in line)
        left = rows[row].index(f"│ {node.name} ")
        right = rows[row].index("│", left + 1)
        width = right - left - 1
        assert rows[row - 1][left : right + 1] == "┌" + "─" * width + "┐"
        assert re.fullmatch("└[─┬]+┘", rows[row + 2][left : right + 1])
    assert all(apart(one, other) for one, other in itertools.combinations(boxes, 2))


@given(actions)
def test_layers_go_down_and_every_line_is_in_the_layout(steps: list[tuple[str, int]]) -> None:
    dataflow = random_flow(steps)
    layout = lay_out(dataflow)
    cells = [cell for layer in layout.layers for cell in layer]
    middle = centres(layout, lambda cell: 1.0 if cell.bend else 9.0, 2.0)

    assert all(lower.layer == upper.layer + 1 for upper, lower in layout.links)
    assert sorted(cell.node.name for cell in cells if not cell.bend) == sorted(dataflow.by_name)
    for cell in cells:
        above = layout.above(cell)
        wanted = [cell.node] if cell.bend else list(dict.fromkeys(cell.node.upstreams))
        assert sorted(c.node.name for c in above) == sorted(node.name for node in wanted)
    for layer in layout.layers:
        for left, right in itertools.pairwise(layer):
            room = 2.0 + sum(0.5 if cell.bend else 4.5 for cell in (left, right))
            assert middle[id(right)] - middle[id(left)] >= room - 1e-6


def test_rows_of_bent_lines_are_shared_where_they_do_not_meet() -> None:
    assert arrange([(0, (5,)), (10, (15,))]) == [[(0, (5,)), (10, (15,))]]
    assert arrange([]) == []


def test_a_line_down_does_not_lie_on_a_line_up_of_another() -> None:
    """One ends in the column in which the other begins: the other must bend first."""
    one, other = (0, (10,)), (10, (20,))

    assert arrange([one, other]) == [[other], [one]]
    assert arrange([other, one]) == [[other], [one]]


def test_very_many_lines_keep_their_order() -> None:
    links = [(i, (i + 20,)) for i in range(9)]

    assert [link for row in arrange(links) for link in row] == links
