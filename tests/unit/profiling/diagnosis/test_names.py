"""Names in sentences: not longer than a sentence bears."""

from rechannel.profiling.diagnosis.stage_names import called
from rechannel.profiling.diagnosis.words import execution_name, short
from tests.unit.profiling.diagnosis.applications import Made, case_of, times
from tests.unit.profiling.diagnosis.made import execution


def test_only_the_first_keys_of_a_stage_are_named():
    keys = ", ".join(f"{name}#{number}" for number, name in enumerate("abcde"))
    case = case_of([Made(tasks=times(1, 10), details=(f"HashAggregate(keys=[{keys}])",))])
    assert called(case, (0, 0)) == "Stage 0 (aggregation by a, b, c and 2 more)"


def test_long_names_are_cut():
    case = case_of(
        [Made(tasks=times(1, 10), name="x" * 61)], [Made(tasks=times(1, 10), name="y" * 60)]
    )
    assert called(case, (0, 0)) == f"Stage 0 ({'x' * 57}...)"
    assert called(case, (1, 0)) == f"Stage 1 ({'y' * 60})"
    assert short(f"parallelize > mapPartitions (count at {'x' * 30})") == (
        "parallelize > mapPartitions..."
    )
    assert short(f"sum (a) {'x' * 60}") == f"sum (a) {'x' * 49}..."
    assert short(f"f ({'x' * 60})") == f"f ({'x' * 54}..."
    assert short("a\n" * 40) == f"{'a ' * 28}a..."
    listed = "Listing leaf files and directories for 40 paths:<br/>a, ..."
    assert execution_name(execution(7, 0, 1, description=listed)) == (
        "SQL execution 7 (Listing leaf files and directories for 40 paths)"
    )
    assert execution_name(execution(7, 0, 1, description=" ")) == "SQL execution 7"


def test_keys_of_a_function_with_state():
    node = "FlatMapGroupsInPandasWithState follow(user#11L, at#12)#3, [user#11L], [user#4L]"
    case = case_of([Made(tasks=times(1, 10), details=("Exchange hashpartitioning(x#1, 4)", node))])
    assert called(case, (0, 0)) == "Stage 0 (groups by user)"
