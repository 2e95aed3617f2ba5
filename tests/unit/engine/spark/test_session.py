"""What a session is told, without starting one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rechannel.engine.spark.session.session import (
    ADVICE,
    COPIED_AFTER,
    DAEMON,
    DAEMON_MODULE,
    SOCKETS,
    SOCKETS_DIR,
    _defaults,
    advise,
    java_version,
    require_java,
    retrying,
)
from rechannel.errors import JavaError


class Conf:
    def __init__(self, values: dict[str, str]) -> None:
        self.values = values

    def get(self, key: str, default: str | None = None) -> str | None:
        return self.values.get(key, default)


class Context:
    def __init__(self, master: str) -> None:
        self.master = master


class Session:
    def __init__(self, values: dict[str, str], master: str) -> None:
        self.conf = Conf(values)
        self.sparkContext = Context(master)


GOOD = {advice.key: advice.value for advice in ADVICE}


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ("something else", None),
    ],
)
def test_java_versions_are_read(text: str, version: int | None) -> None:
    assert java_version(text) == version


@pytest.mark.parametrize(
    ("master", "better"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,7]", "local[2,7]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_local_masters_get_retries(master: str, better: str) -> None:
    assert retrying(master) == better


def test_nothing_is_said_of_a_good_session() -> None:
    assert advise(Session(GOOD, "local[2,4]")) == []


@pytest.mark.parametrize("advice", ADVICE, ids=lambda advice: advice.key)
def test_every_missing_setting_is_named_with_its_cost(advice: object) -> None:
    worse = {key: value for key, value in GOOD.items() if key != advice.key}
    (sentence,) = advise(Session(worse, "local[2,4]"))
    assert advice.key in sentence
    assert advice.cost in sentence


def test_containers_get_a_short_place_for_sockets() -> None:
    (sentence,) = advise(Session(GOOD, "yarn"))
    assert "spark.python.unix.domain.socket.dir is not set, better /tmp" in sentence
    assert advise(Session({**GOOD, SOCKETS: SOCKETS_DIR}, "yarn")) == []


def test_a_master_without_retries_is_named() -> None:
    (sentence,) = advise(Session(GOOD, "local[2]"))
    assert "local[2,4]" in sentence


def java(folder: Path, text: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{text}' >&2\n", encoding="utf-8")
    program.chmod(0o755)
    return folder


def test_old_java_is_refused_by_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = java(tmp_path, 'openjdk version "11.0.2" 2019-01-15')
    monkeypatch.setenv("JAVA_HOME", os.fspath(home))
    with pytest.raises(JavaError, match=r"is Java 11; Spark needs Java 17"):
        require_java()


def test_new_java_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = java(tmp_path, 'openjdk version "25.0.1" 2025-10-21')
    monkeypatch.setenv("JAVA_HOME", os.fspath(home))
    require_java()


def test_missing_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", os.fspath(tmp_path))
    with pytest.raises(JavaError, match="no Java found"):
        require_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    with pytest.raises(JavaError, match="PATH"):
        require_java()


def test_what_stays_on_one_machine_is_not_compressed() -> None:
    assert _defaults("local[2,4]", {})["spark.shuffle.compress"] == "false"
    assert "spark.shuffle.compress" not in _defaults("spark://host:7077", {})
    assert "spark.shuffle.compress" not in _defaults("local-cluster[2,1,1024]", {})


@pytest.mark.parametrize(
    ("master", "asked", "after"),
    [
        ("local[2,4]", {}, "500ms"),
        ("spark://host:7077", {}, "2000ms"),
        ("spark://host:7077", DAEMON, "500ms"),
        ("spark://host:7077", {DAEMON_MODULE: "other"}, "2000ms"),
    ],
)
def test_a_task_is_copied_once_it_has_taken_longer_than_a_new_worker_takes(master, asked, after):
    assert _defaults(master, asked)[COPIED_AFTER] == after
