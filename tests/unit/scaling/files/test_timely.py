"""Timely's logs: operators, channels and rates, and one number of workers for all."""

import pytest

from rechannel.advising.api import scaling_advice
from rechannel.errors import TraceError

OPERATORS = [(0, 1, "Input"), (2, 2, "FilterMap"), (4, 3, "Output Of")]


def events(worker, operators=OPERATORS, channels=((1, 2), (2, 3))):
    raw = "replayed raw: 0 (15, TimelySetup {{ index: {0} }}, {1})"
    lines = [
        f'Operates(OperatesEvent {{ id: {key}, addr: [{worker}, 0, {local}], name: "{name}" }})'
        for key, local, name in operators
    ]
    lines += [
        f"Channels(ChannelsEvent {{ id: {n}, scope_addr: [{worker}, 0], source: ({a}, 0), target: ({b}, 1) }})"
        for n, (a, b) in enumerate(channels)
    ]
    return [raw.format(worker, line) for line in [*lines, "Schedule(ScheduleEvent { id: 2 })"]]


def measured(worker, operator, time, true_in, true_out):
    return f"replayed converted: {time}   (Rates(Op({worker}, {operator})), ({true_in}, {true_out}, 1.0, 1.0))"


@pytest.fixture
def place(tmp_path):
    topology = [line for worker in (0, 1) for line in events(worker)]
    rates = ["another line"]
    for worker in (0, 1):
        for time, source in enumerate((300, 600)):
            rates += [measured(worker, 0, time, 0, source), measured(worker, 2, time, 200.5, 401)]
    (tmp_path / "topology.log").write_text("\n".join(topology))
    (tmp_path / "rates.log").write_text("\n".join(rates))
    return tmp_path


def test_workers_are_the_sum_over_operators_that_have_rates(place):
    made = scaling_advice(place, system="timely")
    # 600 and 1,200 arrive; a worker filters 200.5. What is written out reported nothing.
    exact = [600 / 200.5, 1200 / 200.5]
    assert [each.operators["2"].exact for each in made.epochs] == pytest.approx(exact)
    assert ([each.workers for each in made.epochs], made.workers) == ([3, 6], 6)
    assert made.present_workers == 2
    assert made.operators["4"].name == "Output Of"
    assert made.operators["4"].target == pytest.approx(2400)
    assert made.notes == ("Output Of reported nothing, and keeps what it has",)
    assert scaling_advice(place, system="timely", factor=0.5).workers == 9


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        (
            "topology",
            "OperatesEvent { id: x }",
            "topology.log, line 13: the event has another form",
        ),
        ("topology", *events(2, [(0, 1, "Input")], ())[:1], "operators are on 2 to 3 workers"),
        (
            "topology",
            *events(0, (), [(3, 9)])[:1],
            r"the operators \['9'\], which no OperatesEvent",
        ),
        ("rates", "Rates(Op(1, 2)), (1.0)", "rates.log, line 10: the event has another form"),
        ("rates", measured(0, 77, 5, 1, 1), "operator '77' is not in the topology"),
        ("rates", measured(9, 2, 5, 1, 1), "instance '9' of '2' is one more than the 2"),
    ],
)
def test_what_is_wrong_is_named(place, file, line, message):
    with (place / f"{file}.log").open("a") as log:
        log.write("\n" + line)
    with pytest.raises(TraceError, match=message):
        scaling_advice(place, system="timely")


def test_operators_of_one_name_are_table_key(place):
    log = place / "topology.log"
    log.write_text(log.read_text().replace("Output Of", "FilterMap"))
    made = scaling_advice(place, system="timely")
    assert [each.name for each in made.operators.values()] == ["FilterMap (2)", "FilterMap (4)"]


def test_nested_scopes_are_skipped(place):
    with (place / "topology.log").open("a") as log:
        log.write('\nOperatesEvent { id: 90, addr: [0, 0, 3, 1], name: "inner" }')
        log.write(
            "\nChannelsEvent { id: 9, scope_addr: [0, 0, 3], source: (1, 0), target: (2, 0) }"
        )
    assert set(scaling_advice(place, system="timely").operators) == {"2", "4"}
