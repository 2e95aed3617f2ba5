"""Graphs in layers."""

from random import Random

import pytest

from rechannel.profiling.report.layers import layered


def test_a_join_lies_below_both_of_its_inputs():
    spots = layered(4, [(0, 2), (1, 2), (2, 3)])
    assert [(spot.component, spot.layer) for spot in spots] == [(0, 0), (0, 0), (0, 1), (0, 2)]


def test_a_vertex_lies_below_the_longest_way_to_it():
    assert [spot.layer for spot in layered(3, [(0, 1), (1, 2), (0, 2)])] == [0, 1, 2]


def test_what_is_not_connected_is_apart():
    assert [spot.component for spot in layered(4, [(0, 2), (1, 1)])] == [0, 1, 0, 2]


def test_layers_are_ordered_so_that_edges_do_not_cross():
    spots = layered(4, [(0, 3), (1, 2)])  # two components, each a line
    assert [spot.place for spot in spots] == [0, 0, 0, 0]
    spots = layered(6, [(0, 5), (1, 4), (2, 3), (0, 4), (1, 3)])
    assert spots[5].place < spots[4].place < spots[3].place


@pytest.mark.parametrize("seed", range(20))
def test_every_edge_leads_to_another_layer_and_places_are_taken_once(seed):
    random = Random(seed)
    count = random.randrange(1, 30)
    edges = [(random.randrange(count), random.randrange(count)) for _ in range(2 * count)]
    spots = layered(count, edges)
    for a, b in edges:
        assert a == b or spots[a].layer != spots[b].layer
        assert spots[a].component == spots[b].component
    assert len({(s.component, s.layer, s.place) for s in spots}) == count
