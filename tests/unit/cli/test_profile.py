"""`rechannel profile`: its units, limits, comparisons, and applications that it runs."""

import json
import os
import signal
import sys
from datetime import timedelta

import pytest
import typer

from rechannel.cli.profiles import running
from rechannel.cli.profiles.values import duration, threshold, window
from rechannel.profiling.files.table import write_trace
from tests.unit.profiling.logs import small
from tests.unit.profiling.model.test_findings import rounds


@pytest.fixture
def traces(tmp_path):
    """Two runs: 50 s, and 90 s because of the work."""
    made = []
    for name, work in (("a", 20), ("b", 40)):
        made.append(tmp_path / f"{name}.parquet")
        write_trace(rounds((work, work), 3), made[-1])
    return made


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("5", 5_000),
        ("0.1", 100),
        ("5 seconds", 5_000),
        ("200 ms", 200),
        ("1.5s", 1_500),
        ("2 min", 120_000),
        ("0", 0),
    ],
)
def test_a_length_of_time_has_a_unit_or_is_seconds(text, ms):
    assert duration(text, "--since") == timedelta(milliseconds=ms)
    assert not ms or window(text) == timedelta(milliseconds=ms)


@pytest.mark.parametrize("text", ["", "soon", "-1", "nan", "inf", "1e300", "5 parsecs", "-5 s"])
def test_what_is_no_length_of_time_is_refused(text):
    with pytest.raises(typer.BadParameter, match="must be a length of time such as '5 seconds'"):
        duration(text, "--since")
    with pytest.raises(typer.BadParameter, match="--window must be 'batch', a length of time"):
        window(text)


def test_windows_are_batches_or_longer_than_nothing():
    assert window("batch") == "batch"
    with pytest.raises(typer.BadParameter, match="not '0'"):
        window("0")


def test_a_threshold_has_its_unit():
    assert threshold("0") == timedelta(0)
    assert threshold("5 ms") == timedelta(milliseconds=5)
    with pytest.raises(
        typer.BadParameter, match="--threshold 5 has no unit: write '5 ms', or '5 s'"
    ):
        threshold("5")


def test_units_of_the_command(traces, rechannel):
    whole = json.loads(rechannel("profile", traces[0], "--window", "10 s", "--json").out)
    assert len(whole["windows"]) == 5
    part = rechannel(
        *(
            "profile",
            traces[0],
            "--window",
            "5 seconds",
            "--since",
            "10000 ms",
            "--until",
            "30",
            "--json",
        )
    )
    assert len(json.loads(part.out)["windows"]) == 4
    refused = rechannel("profile", traces[0], "--threshold", "5")
    assert refused.code == 2
    assert "has no unit" in refused.err


def test_findings_come_first_then_notes_then_tables(tmp_path, rechannel):
    log = tmp_path / "app-1"
    log.write_bytes(b"".join(small()) + b'{"Event":"SparkListenerTask')
    out = rechannel("profile", log).out
    assert out.index("small, Spark 4.3.0: ") < out.index("note: ") < out.index("\nactivities\n")
    assert out.index("% of the critical path") < out.index("note: ")


def test_a_name_does_not_command_the_terminal(tmp_path, rechannel):
    lines = b"".join(small()).replace(
        b'"App Name":"small"', b'"App Name":"sm\\u001b[2Jall\\nfailed: no"'
    )
    (tmp_path / "app-1").write_bytes(lines)
    reaction = rechannel("profile", tmp_path / "app-1")
    assert reaction.out.startswith("sm␛[2Jall␊failed: no, Spark 4.3.0: ")
    assert "\x1b" not in reaction.out + reaction.err
    assert "\x1b" not in rechannel("profile", tmp_path / "app-1", "--json").out


def test_what_cannot_be_written_is_told_in_one_line(tmp_path, rechannel):
    (tmp_path / "app-1").write_bytes(b"".join(small()))
    (tmp_path / "file").touch()
    for option, place, why in (
        ("--html", "no/page.html", "No such file or directory"),
        ("--html", "", "Is a directory"),
        ("--png", "file/pictures", "Not a directory"),
        ("--png", "file", "File exists"),
    ):
        reaction = rechannel("profile", tmp_path / "app-1", option, tmp_path / place)
        assert reaction.code == 2
        (line,) = reaction.err.splitlines()
        assert line.endswith(f"{tmp_path / place} cannot be written: {why}")


def test_two_logs_are_compared(traces, rechannel):
    reaction = rechannel("profile", *traces)
    assert (reaction.code, reaction.err) == (0, "")
    first, second, empty, text, *_ = reaction.lines
    assert (first, second, empty) == (
        f"A: a.parquet ({traces[0]})",
        f"B: b.parquet ({traces[1]})",
        "",
    )
    assert text.startswith("B takes 40 s longer than A (90 s instead of 50 s, +80 %).")
    assert [line for line in reaction.lines if line.startswith("count  ")]
    told = json.loads(rechannel("profile", *traces, "--json", "--top", "1").out)
    assert told["text"] == text
    assert told["logs"] == [str(trace) for trace in traces]
    assert [row["name"] for row in told["operators"]] == ["count"]


def test_what_two_logs_do_not_go_with(traces, tmp_path, rechannel):
    page = rechannel("profile", *traces, "--html", tmp_path / "page.html")
    assert (page.code, "profile the logs one by one" in page.err) == (2, True)
    three = rechannel("profile", *traces, traces[0])
    assert (three.code, "at most two logs can be compared, not 3" in three.err) == (2, True)
    alone = rechannel("profile", traces[0], "--fail-on", "slower>10%")
    assert (alone.code, "'slower>10%' compares two runs: give two logs" in alone.err) == (2, True)


def test_a_broken_limit_fails_and_says_which(traces, rechannel):
    assert rechannel("profile", *traces, "--fail-on", "slower>90%").code == 0
    failed = rechannel("profile", *traces, "--fail-on", "slower>90%", "--fail-on", "slower>10%")
    assert failed.code == 1
    [line] = failed.err.splitlines()
    assert line.startswith("failed: slower>10%: B takes 40 s longer than A")
    one = rechannel("profile", traces[0], "--fail-on", "any>1%", "--json")
    assert one.code == 1
    assert one.err.startswith("failed: any>1%: processing costs ")
    # The answer is still the answer.
    assert json.loads(one.out)["findings"]


def test_a_bad_limit_is_refused_before_anything_is_read(rechannel):
    unknown = rechannel("profile", "no-such-log", "--fail-on", "skeww>1%")
    assert unknown.code == 2
    assert "there is no cause 'skeww'" in unknown.err
    assert "too-few-partitions" in unknown.err
    assert "no-such-log" not in unknown.err


FAKE = """
import json, os, shlex, sys
words = sys.argv[1:] if sys.argv[0].endswith("spark-submit") else shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])
conf = dict(w.partition("=")[::2] for w in words if w.startswith("spark."))
print("rows: 42")
print("it ends", file=sys.stderr)
code = int(os.environ.get("CODE", 0))
if "LOG" in os.environ and "NO_LOG" not in os.environ:
    lines = open(os.environ["LOG"], "rb").read().splitlines(keepends=True)
    told = {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": conf}
    place = conf.get("spark.eventLog.dir", os.environ.get("DIRECTORY", "")).removeprefix("file://")
    with open(os.path.join(place, "app-1"), "wb") as file:
        file.writelines([lines[0], json.dumps(told, separators=(",", ":")).encode() + b"\\n", *lines[1:]])
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
"""Stands for an application: it writes a log where its settings say."""


@pytest.fixture
def application(tmp_path, monkeypatch):
    """The words that run it."""
    (tmp_path / "log").write_bytes(b"".join(small()))
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "app.py").write_text(FAKE)
    return [sys.executable, "-S", tmp_path / "app.py"]


def test_an_application_is_run_and_reported_on(application, tmp_path, rechannel):
    page = tmp_path / "why.html"
    reaction = rechannel("profile", "--run", "--html", page, "--", *application)
    assert reaction.code == 0
    # Standard output is the application's.
    assert reaction.out == "rows: 42\n"
    assert reaction.err.startswith("it ends\n")
    assert "small, Spark 4.3.0" in reaction.err
    assert "small" in page.read_text()
    with_json = rechannel("profile", "--run", "--json", "--", *application)
    assert json.loads(with_json.out.partition("\n")[2])["title"] == "small, Spark 4.3.0"


def test_so_is_what_spark_submit_runs(application, tmp_path, rechannel, monkeypatch):
    submit = tmp_path / "spark-submit"
    submit.write_text(f"#!{sys.executable} -S\n{FAKE}")
    submit.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    reaction = rechannel("profile", "--run", "--", "spark-submit", "--master", "local", "app.py")
    assert reaction.out == "rows: 42\n"
    assert "small, Spark 4.3.0" in reaction.err
    logs = tmp_path / "logs"
    logs.mkdir()
    given = ["--conf", "spark.eventLog.enabled=true", "--conf", f"spark.eventLog.dir=file://{logs}"]
    assert (
        "small, Spark 4.3.0"
        in rechannel("profile", "--run", "--", "spark-submit", *given, "app.py").err
    )
    assert [log.name for log in logs.iterdir()] == ["app-1"]


@pytest.mark.parametrize(("code", "shell"), [(7, 7), (-signal.SIGKILL, 137)])
def test_the_exit_code_is_the_application_s(code, shell, application, rechannel, monkeypatch):
    monkeypatch.setenv("CODE", str(code))
    reaction = rechannel("profile", "--run", "--fail-on", "any>1%", "--", *application)
    assert reaction.code == shell
    assert "failed: any>1%: " in reaction.err


def test_a_limit_counts_if_the_application_succeeds(application, rechannel):
    assert rechannel("profile", "--run", "--fail-on", "any>1%", "--", *application).code == 1


def test_a_report_that_fails_fails_nothing(application, rechannel, monkeypatch, tmp_path):
    nowhere = tmp_path / "no" / "such" / "why.html"
    reaction = rechannel("profile", "--run", "--html", nowhere, "--", *application)
    assert reaction.code == 0
    assert "no report: " in reaction.err
    monkeypatch.setenv("NO_LOG", "1")
    monkeypatch.setenv("CODE", "3")
    reaction = rechannel("profile", "--run", "--", *application)
    assert reaction.code == 3
    assert "no report: there is no event log of this run in file://" in reaction.err


def test_a_log_elsewhere_is_named(application, rechannel, monkeypatch):
    monkeypatch.setenv("NO_LOG", "1")
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS",
        "--conf spark.eventLog.enabled=true --conf spark.eventLog.dir=hdfs://n/logs pyspark-shell",
    )
    reaction = rechannel("profile", "--run", "--", *application)
    assert reaction.code == 0
    assert "the event log is in hdfs://n/logs; profile a copy of it" in reaction.err


def test_a_command_that_is_not_there(rechannel):
    reaction = rechannel("profile", "--run", "--", "no-such-command", "app.py")
    assert reaction.code == 2
    assert "'no-such-command' cannot be run: No such file" in reaction.err


def test_a_properties_file_that_is_not_there(rechannel, tmp_path):
    missing = tmp_path / "mine.conf"
    command = ("spark-submit", "--properties-file", missing, "app.py")
    reaction = rechannel("profile", "--run", "--", *command)
    assert reaction.code == 2
    assert f"the properties file {missing} cannot be read: No such file" in reaction.err


def test_signals_are_the_application_s():
    sent = []

    class Process:
        def send_signal(self, number):
            sent.append(number)

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with running._signals_for(Process()):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
    # Ctrl-C reaches all processes of the terminal, the request to end only this one.
    assert sent == [signal.SIGTERM]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
