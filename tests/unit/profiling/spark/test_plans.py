"""What stages are called: nodes of plans of Spark SQL."""

import pytest

from rechannel.profiling.spark.log import SparkLog
from rechannel.profiling.spark.plans import python_functions
from rechannel.profiling.spark.trace import spark_trace
from tests.unit.profiling.logs import info, line, metrics, small, stage_info, task_end

SQL = "org.apache.spark.sql.execution.ui."


def sql(event, **fields):
    return line(event, **fields).replace(b"SparkListener", f"{SQL}SparkListener".encode(), 1)


def node(name, *children, text="", counts=()):
    metrics = [{"name": "n", "accumulatorId": each, "metricType": "sum"} for each in counts]
    return {
        "nodeName": name,
        "simpleString": text or name,
        "children": list(children),
        "metadata": {},
        "metrics": metrics,
    }


PLAN = node(
    "AdaptiveSparkPlan",
    node(
        "WholeStageCodegen (2)",
        node(
            "MapInPandas",
            node(
                "InputAdapter",
                node(
                    "Exchange",
                    node(
                        "WholeStageCodegen (1)",
                        node("Project", node("Scan csv", counts=[5])),
                        counts=[4],
                    ),
                    counts=[3, 6],
                ),
            ),
            text="MapInPandas spelled(word#1)#2, [word#3, n#4L]",
            counts=[2],
        ),
        counts=[1],
    ),
)


def done(number, counters, name="start at NativeMethodAccessorImpl.java:0"):
    info = stage_info(number, name=name, scope="WholeStageCodegen (9)")
    info["Accumulables"] = [{"ID": each, "Name": "n", "Value": 1} for each in counters]
    return line("StageCompleted", **{"Stage Info": info})


def named(*lines):
    log = SparkLog(strict=True).read([*small()[:2], *lines])
    return {number: stage.name for number, stage in log.stages.items()}


def test_stages_have_the_nodes_between_exchanges():
    start = sql("SQLExecutionStart", executionId=0, sparkPlanInfo=PLAN)
    # Both stages count with accumulators of the exchange: these do not tell which one it is.
    found = named(start, done(7, [3, 5, 6, 99]), done(8, [3, 6, 1], "collect at job.py:3"))
    assert found == {
        7: "Scan csv > Project > Exchange",
        8: "Exchange > MapInPandas spelled (collect at job.py:3)",
    }


def test_a_scan_without_a_table_has_no_space_after_its_name():
    plan = node("Project", node("Scan parquet ", counts=[1]), counts=[2])
    start = sql("SQLExecutionStart", executionId=0, sparkPlanInfo=plan)
    assert named(start, done(7, [1, 2])) == {7: "Scan parquet > Project"}


def test_call_sites_within_spark_are_left_out():
    start = sql("SQLExecutionStart", executionId=0, sparkPlanInfo=PLAN)
    here = "$anonfun$withThreadLocalCaptured$1 at CompletableFuture.java:1768"
    found = named(start, done(7, [3, 5, 6, 99], here))
    assert found == {7: "Scan csv > Project > Exchange"}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ArrowEvalPython [shout(word#1)#9], [pythonUDF0#9], 200", "ArrowEvalPython shout"),
        ("BatchEvalPython [f(a#1), g(b#2)], [x]", "BatchEvalPython f"),
        ("FlatMapGroupsInPandas [k#0L], each(k#0L, v#1)#5, [k#6]", "FlatMapGroupsInPandas each"),
        ("ArrowEvalPython [f(cast(a#1 as string), g(b#2)#3)#4], [x#5]", "ArrowEvalPython f"),
        ("!FlatMapGroupsInPandasWithState f(k#1)#2, [k#1]", "FlatMapGroupsInPandasWithState f"),
        ("Project [upper(word#1)]", "Project"),
    ],
)
def test_python_functions_are_named(text, name):
    plan = node(text.partition(" ")[0].lstrip("!"), text=text, counts=[1])
    start = sql("SQLExecutionStart", executionId=0, sparkPlanInfo=plan)
    assert named(start, done(0, [1])) == {0: name}


@pytest.mark.parametrize(
    ("rdd", "nodes", "known"),
    [("PythonRDD", [], True), ("PythonRDD", [1], False), ("MapPartitionsRDD", [], False)],
)
def test_functions_of_rdds_have_no_names(rdd, nodes, known):
    plan = node("Scan ExistingRDD", counts=[1])
    info = stage_info(0)
    info["RDD Info"][0]["Name"] = rdd
    info["Accumulables"] = [{"ID": each, "Name": "n", "Value": 1} for each in nodes]
    start = sql("SQLExecutionStart", executionId=0, sparkPlanInfo=plan)
    log = SparkLog(strict=True).read(
        [*small()[:2], start, line("StageCompleted", **{"Stage Info": info})]
    )
    stage = log.facts().stages[0, 0]
    assert (stage.python, stage.functions) == (known, ())


def test_plans_that_change_and_end():
    start = sql("SQLExecutionStart", executionId=0, sparkPlanInfo=node("A", counts=[1]))
    other = sql("SQLAdaptiveExecutionUpdate", executionId=0, sparkPlanInfo=node("B", counts=[2]))
    end = sql("SQLExecutionEnd", executionId=0, time=1)
    assert named(start, other, done(0, [1]), done(1, [2])) == {0: "A", 1: "B"}
    # Numbers of accumulators mean nothing any more; there is the scope left, and nowhere to look.
    assert named(start, end, done(0, [1])) == {0: "WholeStageCodegen (9)"}


def stage_of(plan, counters, start=0):
    lines = [sql("SQLExecutionStart", executionId=0, sparkPlanInfo=plan), done(start, counters)]
    return SparkLog(strict=True).read([*small()[:2], *lines]).facts().stages[start, 0]


def test_a_stage_has_its_nodes_with_their_arguments_and_functions():
    found = stage_of(PLAN, [2])
    assert found.nodes == ("Exchange", "MapInPandas")
    assert found.details == ("Exchange", "MapInPandas spelled(word#1)#2, [word#3, n#4L]")
    assert found.functions == ("spelled",)
    text = "ArrowEvalPython [f(cast(a#1 as string), g(b#2)#3)#4, h(a#1)#6], [x#5]" + " " * 300
    found = stage_of(node("ArrowEvalPython", text=text, counts=[1]), [1])
    assert found.functions == ("f", "g", "h")
    assert [len(each) for each in found.details] == [300]


def test_stages_of_many_batches_share_their_nodes():
    lines, count = [], 50
    for number in range(count):
        text = f"HashAggregate(keys=[k#{number}], functions=[count(1)])"
        plan = node("HashAggregate", text=text, counts=[number])
        lines += [
            sql("SQLExecutionStart", executionId=number, sparkPlanInfo=plan),
            done(number, [number]),
            sql("SQLExecutionEnd", executionId=number, time=1),
        ]
    stages = SparkLog(strict=True).read([*small()[:2], *lines]).facts().stages
    assert len(stages) == count
    assert len({id(stage.details) for stage in stages.values()}) == 1
    assert stages[0, 0].details == ("HashAggregate(keys=[k#0], functions=[count(1)])",)


def test_arguments_are_dropped_when_there_is_no_room():
    log = SparkLog(strict=True)
    log.told._plans._room = 0
    start = sql("SQLExecutionStart", executionId=0, sparkPlanInfo=node("A", text="A x", counts=[1]))
    found = log.read([*small()[:2], start, done(0, [1])]).facts().stages[0, 0]
    assert (found.nodes, found.details) == (("A",), ())


def test_what_is_cached_is_in_the_plans_of_several_executions():
    begun = [
        sql("SQLExecutionStart", executionId=each, sparkPlanInfo=node("Scan", counts=[1]))
        for each in (0, 1)
    ]
    ended = [sql("SQLExecutionEnd", executionId=each, time=1) for each in (0, 1)]
    assert named(*begun, ended[0], done(0, [1])) == {0: "Scan"}
    assert named(*begun, *ended, done(0, [1])) == {0: "WholeStageCodegen (9)"}


class Read(str):
    """A text that counts how many of its characters were looked at one by one."""

    __slots__ = ("count",)

    def __getitem__(self, at):
        self.count = getattr(self, "count", 0) + 1
        return super().__getitem__(at)


def test_calls_that_do_not_end_are_looked_at_once():
    text = Read("BatchEvalPython [" + "a(" * 500 + "x" * 50_000)
    assert python_functions(text) == ["a"]
    assert text.count <= 1_000
    assert python_functions("BatchEvalPython [f(a#1)) g(b#2)#3]") == ["g"]
    # The name of a node is short.
    assert python_functions("Python" * 100 + " f(a#1)#2") == []


def test_a_stage_that_runs_again_keeps_its_name():
    start = sql("SQLExecutionStart", executionId=0, sparkPlanInfo=node("Sort", counts=[1]))
    again = {**stage_info(5, scope="WholeStageCodegen (9)"), "Stage Attempt ID": 1}
    lines = [start, done(5, [1]), line("StageSubmitted", **{"Stage Info": again})]
    ran = task_end(5, info(1, "1", 10, 20), metrics(5))
    log = SparkLog(strict=True).read([*small()[:2], *lines, ran])
    assert list(spark_trace(log).names.operators) == ["Sort"]
    assert {stage.name for stage in log.facts().stages.values()} == {"Sort"}
