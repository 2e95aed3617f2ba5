"""Benchmarks: what is written and what the command prints."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import benchmarks
from benchmarks import command, environment, report
from benchmarks.harness import (
    Failure,
    Metric,
    Result,
    Workbench,
)
from benchmarks.progress import ConsoleProgress
from benchmarks.registry import BENCHMARKS
from tests.support.benchmarks import PICTURE, benchmark

RESULT = Result(
    parameters={"rounds": 1},
    metrics=(
        Metric(name="median", value=1234.5, unit="ms", variant="ours"),
        Metric(name="median", value=0.12345, unit="ms", variant="theirs"),
    ),
    ratios={"theirs": 2.5, "bound": 0.5},
    picture=PICTURE,
    failures=(Failure(variant="other", reason="exit code 7", stderr_tail="[boom] went [/it]"),),
)


def test_json_has_exactly_the_documented_keys() -> None:
    document = report.as_json(RESULT, {"python": "3"}, {"cpus": 2})
    assert json.loads(json.dumps(document)) == {
        "versions": {"python": "3"},
        "hardware": {"cpus": 2},
        "parameters": {"rounds": 1},
        "metrics": [
            {"name": "median", "value": 1234.5, "unit": "ms", "variant": "ours"},
            {"name": "median", "value": 0.12345, "unit": "ms", "variant": "theirs"},
            {"name": "failed", "value": 1.0, "unit": "runs", "variant": "other"},
        ],
        "ratios": {"theirs": 2.5, "bound": 0.5},
    }


def test_many_variants_are_told_one_below_the_other(tmp_path: Path) -> None:
    metrics = [
        Metric(name=name, value=number + 0.5, unit="s", variant=f"variant_{number}")
        for number in range(report.COLUMNS + 1)
        for name in ("mean batch", "slowest batch")
    ]
    report.write_text(
        tmp_path / "t.txt", report.tables(replace(RESULT, metrics=tuple(metrics)), {})
    )
    lines = (tmp_path / "t.txt").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if "variant_8" in line]
    assert line.strip("│ ").replace("│", "").split() == ["variant_8", "mean", "batch", "8.5", "s"]
    assert sum("slowest batch" in line for line in lines) == report.COLUMNS + 1


def test_tables_show_goals_and_failures(tmp_path: Path) -> None:
    report.write_text(
        tmp_path / "t.txt", report.tables(RESULT, {"theirs": 2.0, "bound": 1.0, "absent": 3.0})
    )
    text = (tmp_path / "t.txt").read_text()
    lines = [line.split() for line in text.splitlines()]
    assert any({"median", "1,234", "0.123"} <= set(line) for line in lines)
    assert any({"theirs", "2.50", "2", "yes"} <= set(line) for line in lines)
    assert any({"bound", "0.50", "1", "no"} <= set(line) for line in lines)
    assert "other failed: exit code 7" in text
    assert "[boom] went [/it]" in text


def test_versions_and_hardware_are_told() -> None:
    assert set(environment.versions()) >= {
        "python",
        "pyspark",
        "pyarrow",
        "numpy",
        "polars",
        "java",
        "rechannel",
    }
    assert environment.package_version("no-such-package") == "not installed"
    machine = environment.hardware()
    assert set(machine) == {
        "cpu",
        "cpus_usable",
        "cpus",
        "memory_bytes",
        "os",
        "load_before",
    }
    assert int(machine["cpus_usable"]) >= 1


def test_java_tells_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = 'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment\n'
    assert environment.parse_java_version(told) == "17.0.15"
    assert environment.parse_java_version("nothing") == "unknown"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert environment.java_version() == "not installed"


def toy_command(monkeypatch: pytest.MonkeyPatch, result: Result) -> list[dict[str, Any]]:
    """Put a benchmark that returns `result` into the registry; the parameters it was run with."""
    ran: list[dict[str, Any]] = []

    def run(parameters: Any, workbench: Workbench) -> Result:
        assert Path(workbench.scratch).is_dir()
        ran.append({**parameters, "only": workbench.only})
        return result

    monkeypatch.setitem(command.BENCHMARKS, "toy", benchmark(run))
    return ran


def test_the_command_writes_table_picture_and_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = Result(parameters={"n": 1}, metrics=RESULT.metrics, ratios={}, picture=PICTURE)
    ran = toy_command(monkeypatch, whole)
    out, file = tmp_path / "new" / "out", tmp_path / "also" / "toy.json"
    code = benchmarks.main(
        [
            *("toy", "--quick", "--out", str(out), "--json", str(file)),
            *("--set", "size.keys=7", "--only", "ours", "--rounds", "5", "--size.rows=3"),
        ]
    )
    assert code == 0
    assert ran == [{"size": {"rows": 3, "keys": 7}, "rounds": 5, "only": frozenset({"ours"})}]
    assert "median" in capsys.readouterr().out
    assert "median" in (out / "toy.txt").read_text()
    assert (out / "toy.png").read_bytes().startswith(b"\x89PNG")
    assert set(json.loads(file.read_text())) == {
        "versions",
        "hardware",
        "parameters",
        "metrics",
        "ratios",
    }


def test_the_command_fails_if_a_variant_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toy_command(monkeypatch, RESULT)
    assert benchmarks.main(["toy", "--out", str(tmp_path)]) == 1
    assert "exit code 7" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["nothing"], "invalid choice"),
        (["scale", "--set", "speed=1"], "no parameter 'speed'"),
        (["latency", "--only", "nobody"], "no variant 'nobody'"),
        (["scale", "--set", "seed"], "is not NAME=JSON"),
        (["scale", "--set", "durability=power"], "is not JSON"),
        (["scale", "--speed", "1"], "no parameter 'speed'"),
        (["scale", "--seed"], "say --NAME JSON"),
        (["scale", "--seed", "power"], "is not JSON"),
    ],
)
def test_the_command_refuses_what_it_does_not_know(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        benchmarks.main(argv)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_the_command_lists_every_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmarks.main([]) == 0
    told = capsys.readouterr().out
    assert all(name in told for name in BENCHMARKS)


def test_progress_shows_steps_at_once_and_details_now_and_then(tmp_path: Path) -> None:
    now = [100.0]
    with (tmp_path / "told.txt").open("w") as file:
        console = Console(file=file, width=80)
        with ConsoleProgress(console, clock=lambda: now[0]) as progress:
            progress.step("first [step]")
            now[0] += 5
            progress.detail("too soon")
            now[0] += 6
            progress.detail("batch 2")
            progress.detail("too soon again")
            now[0] += 1
            progress.step("second")
    lines = (tmp_path / "told.txt").read_text().splitlines()
    assert [line.split(maxsplit=2) for line in lines] == [
        ["0", "s", "first [step]"],
        ["11", "s", "first [step]: batch 2"],
        ["12", "s", "second"],
    ]
