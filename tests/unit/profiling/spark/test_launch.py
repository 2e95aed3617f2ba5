"""How applications are run so that their logs are found."""

import json
import os
from pathlib import Path

import pytest

from rechannel.profiling.spark.event_files import log_lines
from rechannel.profiling.spark.launch import (
    MARK,
    launch,
    marked_logs,
    properties,
    properties_file,
    split,
)
from tests.unit.profiling.logs import line, small

OWN = Path("/own/logs")
ADDED = ["--conf", "spark.eventLog.enabled=true", "--conf", "spark.eventLog.dir=file:///own/logs"]
MARKED = ["--conf", f"{MARK}=m1"]


def launched(command, environment=None, defaults=None):
    return launch(command, environment or {}, defaults or {}, own=OWN, mark="m1")


def test_spark_submit_gets_a_log_of_its_own_before_the_application():
    plan = launched(
        ["/opt/spark/bin/spark-submit", "--master", "local[2]", "-v", "app.py", "--conf", "x"]
    )
    before = ["/opt/spark/bin/spark-submit", "--master", "local[2]", "-v"]
    assert list(plan.command) == [*before, *ADDED, *MARKED, "app.py", "--conf", "x"]
    assert plan.directory == OWN


def test_any_other_command_gets_it_through_pyspark():
    plan = launched(["python", "app.py"], {"HOME": "/h"})
    assert plan.command == ("python", "app.py")
    assert plan.environment["HOME"] == "/h"
    assert plan.environment["PYSPARK_SUBMIT_ARGS"].split() == [*ADDED, *MARKED, "pyspark-shell"]
    given = {"PYSPARK_SUBMIT_ARGS": "--master 'local[2]' --name 'my app' pyspark-shell"}
    passed = launched(["python", "app.py"], given).environment["PYSPARK_SUBMIT_ARGS"]
    assert passed.startswith("--master 'local[2]' --name 'my app' --conf ")
    assert passed.endswith(" pyspark-shell")


@pytest.mark.parametrize(
    ("options", "defaults"),
    [
        (["--conf", "spark.eventLog.enabled=true", "-c", "spark.eventLog.dir=/logs"], {}),
        (["--conf=spark.eventLog.enabled=TRUE"], {"spark.eventLog.dir": "file:/logs"}),
        ([], {"spark.eventLog.enabled": "true", "spark.eventLog.dir": "file:///logs"}),
    ],
)
def test_the_user_s_own_log_stays_where_it_is(options, defaults):
    plan = launched(["spark-submit", *options, "app.py"], defaults=defaults)
    assert list(plan.command) == ["spark-submit", *options, *MARKED, "app.py"]
    assert plan.directory == Path("/logs")


def test_options_count_before_files():
    command = ["spark-submit", "--conf", "spark.eventLog.enabled=false", "app.py"]
    plan = launched(command, defaults={"spark.eventLog.enabled": "true"})
    assert plan.directory == OWN
    # The last option of a name counts, so it is the one that switches the log on.
    assert [word for word in plan.command if "enabled" in word][-1] == "spark.eventLog.enabled=true"


@pytest.mark.parametrize(
    ("where", "directory"),
    [
        ("hdfs://name:8020/logs", None),
        ("s3a://bucket/logs", None),
        ("file:///a%20b", Path("/a b")),
        ("/plain", Path("/plain")),
        (None, Path("/tmp/spark-events")),
    ],
)
def test_where_the_log_of_the_user_is(where, directory):
    defaults = {
        "spark.eventLog.enabled": "true",
        **({"spark.eventLog.dir": where} if where else {}),
    }
    assert launched(["spark-submit", "app.py"], defaults=defaults).directory == directory


def test_options_end_where_the_application_begins():
    words = ["--supervise", "--name=x", "--jars", "a.jar", "-c", "a=b", "app.jar", "--jars", "no"]
    assert split(words) == (words[:6], words[6:])
    assert split(["--master"]) == (["--master"], [])
    assert split(["--conf", "-a", "-u", "app.py"]) == (["--conf", "-a"], ["-u", "app.py"])
    assert split([]) == ([], [])


@pytest.mark.parametrize(
    "words",
    [
        ["spark-sql", "-S", "-e", "select 1"],
        ["spark-sql", "--silent", "-e", "select 1"],
        ["spark-sql", "--database", "d", "-f", "q.sql"],
        ["spark-shell", "-i", "x.scala"],
    ],
)
def test_options_of_a_shell_keep_their_values(words):
    program, *own = words
    assert list(launched(words).command) == [program, *ADDED, *MARKED, *own]
    known = [program, "--master", "local[2]", *own]
    assert list(launched(known).command) == [*known[:3], *ADDED, *MARKED, *own]


def test_properties_are_those_of_java():
    text = "# no\n! no\nspark.a  1\nspark.b=2 3\n spark.c : x=y \n\nspark.d\tz\nlonely\n"
    assert properties(text) == {"spark.a": "1", "spark.b": "2 3", "spark.c": "x=y", "spark.d": "z"}


def test_the_file_with_the_user_s_properties(tmp_path):
    home = tmp_path / "spark"
    for place in (home / "conf", home / "bin", tmp_path / "conf"):
        place.mkdir(parents=True)
        (place / "spark-defaults.conf").touch()
    program = home / "bin" / "spark-submit"
    program.touch(mode=0o755)
    command, path = ["spark-submit", "app.py"], str(program.parent)
    assert properties_file(command, {"PATH": path}) == home / "conf" / "spark-defaults.conf"
    known = {"PATH": path, "SPARK_CONF_DIR": str(tmp_path / "conf")}
    assert properties_file(command, known) == tmp_path / "conf" / "spark-defaults.conf"
    named = ["spark-submit", "--properties-file", "mine.conf", "app.py"]
    assert properties_file(named, known) == Path("mine.conf")
    # An option of the application is none of Spark's; what PySpark passes on is.
    other = ["python", "-u", "app.py", "--properties-file", "its.conf"]
    assert properties_file(other, known) == tmp_path / "conf" / "spark-defaults.conf"
    passed = {**known, "PYSPARK_SUBMIT_ARGS": "--properties-file mine.conf pyspark-shell"}
    assert properties_file(other, passed) == Path("mine.conf")


def marked(mark):
    started, application, *others = small()
    told = line(
        "EnvironmentUpdate", **{"Spark Properties": {MARK: mark, "spark.app.name": "small"}}
    )
    return b"".join([started, told, application, *others])


def test_the_logs_of_a_run_are_those_with_its_mark(tmp_path):
    (tmp_path / "other").write_bytes(marked("m2"))
    (tmp_path / "mine").write_bytes(marked("m1"))
    (tmp_path / "longer").write_bytes(marked("m1") + b"\n")
    (tmp_path / "no-log").write_text(json.dumps([1, 2]))
    (tmp_path / "directory").mkdir()
    rolled = tmp_path / "eventlog_v2_app"
    rolled.mkdir()
    (rolled / "events_1_app").write_bytes(marked("m3"))
    assert [place.name for place in marked_logs(tmp_path, "m1")] == ["longer", "mine"]
    assert marked_logs(tmp_path, "m3") == [rolled]
    assert marked_logs(tmp_path, "m4") == []
    assert marked_logs(tmp_path / "nowhere", "m1") == []


def test_pipes_in_a_directory_of_logs_are_not_waited_for(tmp_path, monkeypatch):
    (tmp_path / "mine").write_bytes(marked("m1"))
    os.mkfifo(tmp_path / "pipe")
    opened = []

    def lines(place):
        opened.append(place.name)
        return log_lines(place) if place.name == "mine" else []

    monkeypatch.setattr("rechannel.profiling.spark.launch.log_lines", lines)
    assert [place.name for place in marked_logs(tmp_path, "m1")] == ["mine"]
    assert opened == ["mine"]
