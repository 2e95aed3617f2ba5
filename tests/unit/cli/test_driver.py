"""`rechannel-python`, without Spark: the properties of the JVM are a dict."""

import os
import sys

import pytest

from rechannel.cli import driver
from rechannel.profiling.spark.launch import MARK
from tests.unit.cli.test_profile import FAKE
from tests.unit.profiling.logs import small


@pytest.fixture
def jvm(monkeypatch):
    """The properties of the JVM that spark-submit has started."""
    held = {}

    def properties(names, values):
        held.update(values)
        # The program takes them over, as a session does.
        words = [f"--conf {name}={value}" for name, value in held.items()]
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", " ".join([*words, "pyspark-shell"]))
        return {name: held[name] for name in names if name in held}

    monkeypatch.setattr(driver, "_properties", properties)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    return held


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Run a program: exit code and what was printed."""
    (tmp_path / "app.py").write_text(FAKE)
    (tmp_path / "log").write_bytes(b"".join(small()))
    monkeypatch.setenv("LOG", str(tmp_path / "log"))

    def call():
        monkeypatch.setattr(sys, "argv", ["rechannel-python", str(tmp_path / "app.py"), "x"])
        with pytest.raises(SystemExit) as ended:
            driver.main()
        printed = capfd.readouterr()
        return ended.value.code, printed.out, printed.err

    return call


def test_a_program_is_run_and_reported_on(jvm, run, tmp_path, monkeypatch):
    code, out, err = run()
    assert (code, out) == (0, "rows: 42\n")
    assert "small, Spark 4.3.0: " in err
    assert jvm["spark.eventLog.enabled"] == "true"
    page = tmp_path / "why.html"
    jvm.clear()
    jvm["spark.rechannel.report"] = str(page)
    monkeypatch.setenv("CODE", "4")
    assert run() == (4, "rows: 42\n", "it ends\n")
    assert "small" in page.read_text()


def test_the_user_s_log_stays_where_it_is(jvm, run, tmp_path):
    (tmp_path / "logs").mkdir()
    given = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{tmp_path}/logs"}
    jvm.update(given)
    assert run()[0] == 0
    assert {name: value for name, value in jvm.items() if name != MARK} == given
    assert os.listdir(tmp_path / "logs") == ["app-1"]  # noqa: PTH208


def test_without_settings_the_program_runs_as_ever(run, monkeypatch):
    def refused(names, values):
        raise ValueError("no gateway")

    monkeypatch.setattr(driver, "_properties", refused)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    monkeypatch.setenv("NO_LOG", "1")
    code, out, err = run()
    assert (code, out) == (0, "rows: 42\n")
    assert "no report: Spark's settings could not be read: no gateway" in err


@pytest.mark.parametrize(("words", "gateway"), [(["app.py"], False), ([], True)])
def test_outside_of_spark_submit_it_is_python(words, gateway, monkeypatch):
    ran = []
    monkeypatch.setattr(os, "execv", lambda *args: ran.append(args) or sys.exit(0))
    monkeypatch.setattr(sys, "argv", ["rechannel-python", *words])
    monkeypatch.setenv("RECHANNEL_PYTHON", "/python")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    if gateway:
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(SystemExit):
        driver.main()
    assert ran == [("/python", ("/python", *words))]
