"""What a page shows, as values."""

import json
from dataclasses import replace

import pytest

from rechannel.profiling.model.finding import Finding, Place
from rechannel.profiling.report.over_time import kinds_over_time
from rechannel.profiling.report.page_data import PageLimits, page_data
from tests.unit.profiling.report.traces import BEGIN, JOIN, SCAN, analysed, cluster

SMALL = PageLimits(
    spans=40, workers=5, windows=2, marks=2, operators=1, names=2, channels=3, findings=1
)


@pytest.fixture(scope="module")
def made():
    return analysed(cluster(4, 2, rounds=6), hosts=2)


@pytest.fixture(scope="module")
def data(made):
    return page_data(made)


def finding(**place):
    return Finding(
        cause="skew", text="One is slow.", advice="Split it.", gain=0.5, place=Place(**place)
    )


def test_values_are_those_of_json(data):
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data["left_out"] == []


def test_shares_of_the_critical_path_add_up_to_that_of_what_workers_did(made, data):
    critical = sum(data["spans"]["critical"]) / 1e9
    assert critical == pytest.approx(made.profile.by_worker()["critical"].sum(), abs=1e-6)
    assert sum(data["shares"]["critical"]) == pytest.approx(critical, abs=1e-5)
    for window in range(len(data["windows"]["start"])):
        whole = sum(shares[window] for _, shares in data["windows"]["critical"])
        assert whole == pytest.approx(1, abs=1e-3)


def test_times_are_from_the_beginning(data):
    assert data["begin"] == BEGIN
    assert min(data["spans"]["start"]) == 0 == data["windows"]["start"][0]
    ends = [s + n for s, n in zip(data["spans"]["start"], data["spans"]["length"], strict=True)]
    assert max(ends) <= data["length"] == data["windows"]["end"][-1]


def test_hosts_executors_and_cores_are_rows(data):
    names = [name for name, *_ in data["rows"]]
    assert {"driver", "host node-0", "executor 3", "executor 3 core 2"} <= set(names)


def test_marks_keep_their_numbers(data):
    assert ["job", 5] in [mark[:2] for mark in data["marks"]]
    assert data["marks"][0][:2] == ["SQL execution", 0]


def test_the_graph_has_operators_and_what_they_read(data):
    vertices = data["graph"]["vertices"]
    by_name = {vertex["name"]: i for i, vertex in enumerate(vertices)}
    assert set(by_name) == {SCAN, JOIN, "driver"}
    bundle = next(b for b in data["graph"]["bundles"] if b["target"] == by_name[JOIN])
    assert bundle["sources"] == [by_name[SCAN]]
    assert vertices[by_name[JOIN]]["layer"] == 1
    # All messages of this trace are between the driver and a core.
    driven = sum(vertex["driven"] for vertex in vertices)
    assert driven == pytest.approx(sum(share for *_, share, _ in data["channels"]), abs=1e-5)


def test_channels_keep_their_sum_when_they_are_summed_by_host(made, data):
    few = page_data(made, PageLimits(channels=3))
    assert len(few["channels"]) < len(data["channels"])
    sums = [sum(share for *_, share, _ in each["channels"]) for each in (few, data)]
    assert sums[0] == pytest.approx(sums[1])
    assert sums[0] > 0


def test_everything_has_a_bound_and_what_is_left_out_is_listed(made):
    small = page_data(made, SMALL)
    assert len(small["spans"]["start"]) <= 40
    assert len([row for row in small["rows"] if row[2] >= 0]) == 5
    assert len(small["windows"]["start"]) <= 2
    assert len(small["marks"]) == 2 * 3
    assert len([v for v in small["graph"]["vertices"] if v["operator"] >= 0]) == 1
    told = " ".join(small["left_out"])
    for words in (
        "4 workers with the least",
        "merged where",
        "groups of",
        "2 longest",
        "1 operator ",
    ):
        assert words in told


def test_a_thousand_workers_fit_into_some_megabytes():
    made = analysed(cluster(250, 4, rounds=4))
    data = page_data(made, PageLimits(spans=5_000))
    assert data["spans"]["activities"] > 5_000 >= len(data["spans"]["start"])
    assert len(json.dumps(data)) < 2_000_000


@pytest.mark.parametrize(
    ("place", "rows", "when", "operator"),
    [
        ({"stage": 1, "worker": "executor 1 core 1"}, ["executor 1 core 1"], ("stage", 1), None),
        (
            {"job": 2, "executor": "3"},
            ["executor 3", "executor 3 core 1", "executor 3 core 2"],
            ("job", 2),
            None,
        ),
        ({"execution": 1, "operator": JOIN}, [], ("SQL execution", 1), 1),
        ({"host": "node-1"}, ["host node-1"], None, None),
        ({"stage": 77}, [], None, None),
    ],
)
def test_a_finding_is_where_its_place_is(made, place, rows, when, operator):
    data = page_data(replace(made, findings=[finding(**place)]))
    at = data["findings"][0]["at"]
    assert [data["rows"][row][0] for row in at["rows"]] == rows
    assert at["operator"] == operator
    mark = next((m for m in data["marks"] if tuple(m[:2]) == when), None)
    assert (at["start"], at["end"]) == ((None, None) if mark is None else (mark[2], mark[3]))


def test_a_finding_without_a_place_is_about_its_kinds(made):
    told = replace(finding(), cause="scheduling")
    (at,) = (each["at"] for each in page_data(replace(made, findings=[told]))["findings"])
    kinds = [made.profile.names.kinds[kind] for kind in at["kinds"]]
    assert "scheduling" in kinds
    assert "processing" not in kinds


@pytest.mark.parametrize("most", [1, 2, 3, 4, 100])
def test_columns_are_means_of_consecutive_windows(made, most):
    windows = made.profile.windows
    told = []
    columns = kinds_over_time(made.profile, BEGIN, most, told)
    group = -(-len(windows) // most)
    assert columns["start"] == [s - BEGIN for s in windows["start"].to_list()[::group]]
    assert columns["end"][-1] == windows["end"].max() - BEGIN
    assert columns["end"][:-1] == columns["start"][1:]
    assert len(told) == (group > 1)
    for what in ("critical", "profile"):
        for column in range(len(columns["start"])):
            whole = sum(shares[column] for _, shares in columns[what])
            assert whole == pytest.approx(1, abs=1e-3)
