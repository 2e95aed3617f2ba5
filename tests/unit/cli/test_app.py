from __future__ import annotations

import ast
import platform
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import rechannel.cli
from rechannel.cli.bench import find_checkout
from rechannel.cli.screen import count, moment, share, size, some
from rechannel.errors import SetUpError
from tests.support.clicks import Clicks

COMMANDS = ("demo", "run", "status", "state", "sql", "events", "verify", "bench")


def test_what_several_commands_have_is_declared_once():
    declared = Counter(
        ast.unparse(node)
        for path in Path(rechannel.cli.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"typer.Argument", "typer.Option"}
    )
    assert [text for text, times in declared.items() if times > 2] == []


def test_version(rechannel):
    import rechannel as package

    reaction = rechannel("--version")
    assert reaction.code == 0
    assert reaction.out.startswith(
        f"rechannel {package.__version__} (Python {platform.python_version()}, Spark "
    )


def test_the_package_is_the_command():
    # In a process of its own: a command stops the Spark session of its process at the end.
    command = [sys.executable, "-m", "rechannel", "--version"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("rechannel ")


def test_help_names_every_command(rechannel):
    reaction = rechannel("--help")
    assert reaction.code == 0
    assert all(f"\n  {command} " in reaction.out for command in COMMANDS)


@pytest.mark.parametrize("command", [c for c in COMMANDS if c != "bench"])
def test_every_command_has_json_for_machines(rechannel, command):
    reaction = rechannel(command, "--help")
    assert reaction.code == 0
    assert "--json" in reaction.out


@pytest.mark.parametrize(
    "arguments", [["fly"], ["status"], ["status", "a", "b"], ["state", "a", "b", "--limit", "x"]]
)
def test_wrong_use_is_table_key_from_bad_answers(rechannel, arguments):
    reaction = rechannel(*arguments)
    assert reaction.code == 2
    assert reaction.out == ""
    assert "Traceback" not in reaction.err


@pytest.mark.parametrize("command", ["status", "verify", "events"])
def test_what_is_no_state_directory_is_refused_in_one_line(rechannel, tmp_path, command):
    reaction = rechannel(command, tmp_path)
    assert reaction.code == 2
    assert reaction.out == ""
    assert reaction.err.splitlines() == [
        f"error: {tmp_path} is not a state directory: there is no dataflow.json in it;"
        " give the `state` of `rc.Job(..., state=...)`"
    ]
    missing = rechannel(command, tmp_path / "nowhere")
    assert "there is no such directory" in missing.err
    assert not (tmp_path / "nowhere").exists()


def test_the_command_line_alone_loads_neither_spark_nor_arrow():
    program = "import sys, rechannel.cli; print(sorted({n.partition('.')[0] for n in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(eval(done.stdout))
    assert not loaded & {"pyspark", "pyarrow", "numpy", "polars", "pandas", "matplotlib"}


@pytest.mark.parametrize(
    ("outcome", "code"), [(0, 0), (1, 1), (2, 2), (ZeroDivisionError("what now"), 3)]
)
def test_the_process_ends_with_the_code_of_its_command(monkeypatch, capfd, outcome, code):
    from rechannel import cli

    def execute(_):
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(cli, "execute", execute)
    monkeypatch.setattr(cli, "_stop_spark", lambda: None)
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == code
    assert ("what now" in capfd.readouterr().err) == (code == 3)


def test_a_checkout_is_recognised(tmp_path):
    with pytest.raises(SetUpError, match="clone the source"):
        find_checkout(tmp_path)
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "registry.py").touch()
    with pytest.raises(SetUpError):
        find_checkout(tmp_path)
    (tmp_path / "src" / "rechannel").mkdir(parents=True)
    assert find_checkout(tmp_path / "elsewhere", tmp_path) == tmp_path


def test_bench_hands_its_arguments_on(rechannel, monkeypatch):
    import benchmarks

    seen = []
    monkeypatch.setattr(benchmarks, "main", lambda argv: seen.append(list(argv)) or 7)
    monkeypatch.setattr(sys, "path", list(sys.path))
    reaction = rechannel("bench", "keyed-state", "--quick", "--json", "x.json", "--help")
    assert reaction.code == 7
    assert seen == [["keyed-state", "--quick", "--json", "x.json", "--help"]]


def test_bench_names_the_extra_that_is_missing(rechannel, monkeypatch):
    import benchmarks

    def main(_):
        raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")

    monkeypatch.setattr(benchmarks, "main", main)
    monkeypatch.setattr(sys, "path", list(sys.path))
    reaction = rechannel("bench")
    assert reaction.code == 2
    assert "pip install 'rechannel[bench]'" in reaction.err


def test_numbers_for_people():
    assert [count(None), count(0), count(1234567.4)] == ["-", "0", "1,234,567"]
    assert [size(0), size(999), size(1024), size(5 << 20)] == [
        "0 B",
        "999 B",
        "1.0 KiB",
        "5.0 MiB",
    ]
    assert size(3 << 50) == "3.0 PiB"
    assert [share(None), share(0.1234)] == ["-", "12.3%"]
    assert moment(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert some([1, 2]) == "1, 2"
    assert some(range(20), most=3) == "0, 1, 2, ... (20 in all)"


def test_a_bucket_is_looked_at_like_a_directory(rechannel, tmp_path):
    url = f"memory:///{tmp_path.name}-commands"
    clicks = Clicks(directory=url, out=tmp_path / "out")
    clicks.start()
    clicks.push([("ann", 1), ("bob", 2)])
    clicks.running.stop()
    assert "Job 'clicks' was stopped." in rechannel("status", url).out
    assert "ann" in rechannel("state", url, "users").out
    assert rechannel("verify", url).code == 0
    assert "no reconfiguration" in rechannel("history", url).out
    told = rechannel("events", url)
    assert told.code == 2
    assert "is not a directory: only state in a directory has events beside it" in told.err
