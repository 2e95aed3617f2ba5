"""Rows of the timeline: what is a part of what."""

from rechannel.profiling.report.rows import MANY, TOGETHER, rows_of


def tree(rows):
    """Names with their parents' names."""
    return [(row.name, rows[row.parent].name if row.parent >= 0 else None) for row in rows]


def names(executors, cores):
    return [f"executor {e} core {c}" for e in range(1, executors + 1) for c in range(1, cores + 1)]


def test_cores_are_parts_of_their_executor():
    rows = rows_of(["driver", *names(2, 2)], {})
    assert tree(rows) == [
        ("driver", None),
        ("executor 1", None),
        ("executor 1 core 1", "executor 1"),
        ("executor 1 core 2", "executor 1"),
        ("executor 2", None),
        ("executor 2 core 1", "executor 2"),
        ("executor 2 core 2", "executor 2"),
    ]
    assert [row.worker for row in rows] == [0, -1, 1, 2, -1, 3, 4]


def test_what_has_one_part_has_no_row_above_it():
    assert tree(rows_of(names(2, 1), {})) == [
        ("executor 1 core 1", None),
        ("executor 2 core 1", None),
    ]


def test_tasks_of_a_job_are_parts_of_their_operator():
    workers = ["driver", "publisher", "sums task 0", "sums task 1", "sums task 1 (2)", "w1"]
    assert [name for name, above in tree(rows_of(workers, {})) if above == "sums"] == workers[2:5]


def test_executors_are_on_their_hosts():
    hosts = {"executor 1": "b", "executor 2": "a", "executor 3": "b"}
    rows = rows_of(["driver", *names(3, 2)], hosts)
    assert [name for name, above in tree(rows) if above is None] == ["driver", "host b", "host a"]
    assert [name for name, above in tree(rows) if above == "host b"] == ["executor 1", "executor 3"]


def test_a_host_for_each_executor_says_nothing_new():
    rows = rows_of(names(2, 2), {"executor 1": "a", "executor 2": "b"})
    assert [name for name, above in tree(rows) if above is None] == ["executor 1", "executor 2"]


def test_a_thousand_executors_are_put_together():
    rows = rows_of(["driver", *names(1_000, 1)], {})
    top = [name for name, above in tree(rows) if above is None]
    assert len(top) == 1 + 1_000 // TOGETHER <= MANY
    assert top[:2] == ["driver", "executor 1 to executor 25"]
    assert sum(row.worker >= 0 for row in rows) == 1_001
    assert all(row.parent < i for i, row in enumerate(rows))


def test_only_chosen_workers_have_rows():
    assert [row.worker for row in rows_of(names(2, 2), {}, [0, 3])] == [0, 3]


def test_long_names_are_cut():
    (row,) = rows_of(["x" * 1_000], {})
    assert len(row.name) == 200
