"""Optimal parallelism: the paper's chain, DAGs, what is not measured, and the properties that DS2 claims."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.errors import RefusedError
from rechannel.scaling.model.optimal import optimal_parallelism
from rechannel.scaling.model.rates import ALL, Rates, Reports, rates_of
from rechannel.scaling.model.topology import Topology, topology

CHAIN = topology([("S", "Op1"), ("Op1", "Op2")])


def rates(processing: float | None, output: float = 0.0, parallelism: int = 1) -> Rates:
    """The rates of an operator, as the paper's tuples have them: true processing rate, true output rate."""
    made = {ALL: output / processing} if processing else {}
    return Rates(parallelism=parallelism, processing=processing, output=made)


def numbers(graph: Topology, of: dict[str, Rates], sources: dict[str, float]) -> dict[str, int]:
    needs = optimal_parallelism(graph, of, sources)
    return {name: needs[name].parallelism for name in graph.operators if graph.inputs[name]}


@pytest.mark.parametrize(
    ("source", "first", "second", "expected"),
    [
        (100, (50, 400), (100, 200), {"Op1": 2, "Op2": 8}),
        (200, (40, 700), (99, 200), {"Op1": 5, "Op2": 36}),
    ],
)
def test_the_worked_chain(source, first, second, expected):
    assert numbers(CHAIN, {"Op1": rates(*first), "Op2": rates(*second)}, {"S": source}) == expected


def test_real_numbers_travel_downstream_and_are_rounded_once():
    # Op1 needs 1.1 instances. Rounded to 2 before it travels, it would emit 200 records a second, and Op2 need 4.
    of = {"Op1": rates(100, 100), "Op2": rates(50)}
    assert numbers(CHAIN, of, {"S": 110}) == {"Op1": 2, "Op2": 3}


def test_several_sources_sinks_and_inputs():
    graph = topology(
        [("a", "join"), ("b", "join"), ("join", "left"), ("join", "right"), ("a", "left")]
    )
    of = {
        "join": Rates(parallelism=2, processing=100, output={"left": 0.5, "right": 2.0}),
        "left": rates(10),
        "right": rates(100, parallelism=4),
    }
    # join: 40 + 60 = 100 at 50 each; left: 50 of the join and all 40 of a; right: 200 at 25 each.
    assert numbers(graph, of, {"a": 40, "b": 60}) == {"join": 2, "left": 9, "right": 8}


def test_a_source_that_does_not_send_everything_everywhere():
    graph = topology([("S", "x"), ("S", "y")])
    source = Rates(parallelism=1, processing=None, output={"x": 0.25, "y": 1.0})
    of = {"S": source, "x": rates(10), "y": rates(10)}
    assert numbers(graph, of, {"S": 100}) == {"x": 3, "y": 10}


def test_an_operator_that_nothing_has_reached_stays_and_what_follows_gets_no_fewer():
    of = {"Op1": rates(None, parallelism=3), "Op2": rates(1000, parallelism=5)}
    needs = optimal_parallelism(CHAIN, of, {"S": 100})
    assert (needs["Op1"].parallelism, needs["Op2"].parallelism) == (3, 5)
    assert (needs["Op1"].known, needs["Op2"].known) == (False, False)


def test_a_source_that_stands_still_needs_one_instance_of_everything():
    of = {"Op1": rates(None, parallelism=3), "Op2": rates(10, parallelism=5)}
    assert numbers(CHAIN, of, {"S": 0}) == {"Op1": 1, "Op2": 1}


def test_work_that_took_no_time_needs_one_instance():
    reports = Reports(
        parallelism=4, records_in=np.array([5.0] * 4), useful_s=np.zeros(4), records_out={ALL: 10}
    )
    of = {"Op1": rates_of(reports, 1.0), "Op2": rates(10)}
    assert math.isinf(of["Op1"].processing)
    assert numbers(CHAIN, of, {"S": 100}) == {"Op1": 1, "Op2": 5}


def test_instances_that_are_silent_count_as_the_mean_of_the_others():
    full = Reports(
        parallelism=3, records_in=np.array([10.0, 30, 0]), useful_s=np.array([1.0, 1, 0])
    )
    missing = Reports(parallelism=3, records_in=np.array([10.0, 30]), useful_s=np.array([1.0, 1]))
    assert rates_of(full, 2.0).processing == rates_of(missing, 2.0).processing == 60
    assert rates_of(full, 2.0).observed == 20
    assert rates_of(missing, 2.0).reports == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"records_in": [1.0, -1]}, "negative"),
        ({"useful_s": [1.0, float("nan")]}, "not a number"),
        ({"useful_s": [1.0]}, "one of each"),
        ({"parallelism": 1}, "2 reports of 1 instances"),
    ],
)
def test_reports_that_make_no_sense_are_refused(change, words):
    given_ = {"parallelism": 2, "records_in": [1.0, 1], "useful_s": [1.0, 1]} | change
    with pytest.raises(RefusedError, match=words):
        Reports(
            parallelism=given_["parallelism"],
            records_in=np.array(given_["records_in"]),
            useful_s=np.array(given_["useful_s"]),
        )


def test_what_is_missing_is_named():
    with pytest.raises(RefusedError, match="source 'S': no rate is given"):
        optimal_parallelism(CHAIN, {}, {})
    with pytest.raises(RefusedError, match="operator 'Op1': no rates"):
        optimal_parallelism(CHAIN, {}, {"S": 1})
    with pytest.raises(RefusedError, match="a true processing rate of 0"):
        optimal_parallelism(CHAIN, {"Op1": rates(0.0), "Op2": rates(1)}, {"S": 1})
    with pytest.raises(RefusedError, match="utilisation=0"):
        optimal_parallelism(CHAIN, {}, {"S": 1}, utilisation=0)


def test_cycles_and_empty_graphs_are_refused():
    with pytest.raises(RefusedError, match=r"a -> b -> a|b -> a -> b"):
        topology([("a", "b"), ("b", "a")])
    with pytest.raises(RefusedError, match="no operators"):
        topology([])


positive = st.floats(0.1, 1e4)


@st.composite
def streams(draw: st.DrawFn) -> tuple[Topology, dict[str, tuple[float, float]], dict[str, float]]:
    """A random DAG: (true processing rate of one instance, selectivity) by operator, and rates of its sources."""
    size = draw(st.integers(2, 7))
    edges = [
        (f"o{one}", f"o{other}")
        for other in range(1, size)
        for one in draw(st.sets(st.integers(0, other - 1), min_size=0, max_size=3))
    ]
    graph = topology(edges, [f"o{number}" for number in range(size)])
    per_instance = {
        name: (draw(positive), draw(st.floats(0, 3)))
        for name in graph.operators
        if graph.inputs[name]
    }
    return graph, per_instance, {name: draw(st.floats(0, 1e4)) for name in graph.sources}


def measured(
    per_instance: dict[str, tuple[float, float]], present: dict[str, int]
) -> dict[str, Rates]:
    """What linear operators show at a parallelism."""
    return {
        name: Rates(
            parallelism=present[name], processing=rate * present[name], output={ALL: emitted}
        )
        for name, (rate, emitted) in per_instance.items()
    }


@given(streams(), st.data())
def test_linear_operators_need_one_step_from_any_start(stream, data):
    graph, per_instance, sources = stream
    starts = [
        {name: data.draw(st.integers(1, 50)) for name in per_instance},
        {name: data.draw(st.integers(1, 50)) for name in per_instance},
    ]
    answers = [numbers(graph, measured(per_instance, start), sources) for start in starts]
    assert answers[0] == answers[1]
    assert numbers(graph, measured(per_instance, answers[0]), sources) == answers[0]
    needs = optimal_parallelism(graph, measured(per_instance, answers[0]), sources)
    for name, (rate, _) in per_instance.items():
        assert answers[0][name] * rate >= needs[name].target * (1 - 1e-6)
        assert answers[0][name] == 1 or (answers[0][name] - 1) * rate < needs[name].target


@given(streams(), st.integers(2, 9))
def test_rates_that_are_scaled_scale_the_answers(stream, factor):
    graph, per_instance, sources = stream
    of = measured(per_instance, dict.fromkeys(per_instance, 1))
    once = optimal_parallelism(graph, of, sources)
    more = optimal_parallelism(graph, of, {name: rate * factor for name, rate in sources.items()})
    for name in per_instance:
        assert more[name].exact == pytest.approx(once[name].exact * factor)


@given(streams(), st.data())
def test_answers_grow_with_the_rates_of_sources(stream, data):
    graph, per_instance, sources = stream
    of = measured(per_instance, dict.fromkeys(per_instance, 1))
    higher = {name: rate * data.draw(st.floats(1, 3)) for name, rate in sources.items()}
    fewer, more = numbers(graph, of, sources), numbers(graph, of, higher)
    assert all(more[name] >= fewer[name] for name in fewer)


@given(st.floats(0.01, 0.1), st.integers(1, 40), st.floats(1, 500))
def test_operators_below_linear_are_approached_from_one_side(penalty, start, target):
    """A rate per instance that falls with their number: no overshoot when scaling up, no undershoot when down."""

    def rate(instances: int) -> float:
        return 10 / (1 + penalty * (instances - 1) / 10)

    graph = topology([("S", "op")])
    enough = next(n for n in range(1, 10_000) if n * rate(n) >= target)
    present = start
    for _ in range(50):
        shown = Rates(parallelism=present, processing=present * rate(present))
        answer = numbers(graph, {"op": shown}, {"S": target})["op"]
        if present < enough:
            assert answer <= enough
        else:
            assert answer >= enough or answer * rate(answer) < target
        if answer == present:
            break
        present = answer
    assert present * rate(present) >= target * (1 - 1e-6)
