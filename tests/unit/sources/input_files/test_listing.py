"""Which files match, and which of them are data."""

from __future__ import annotations

import errno
import glob
import os
import shutil
from pathlib import Path

import pytest

from rechannel.errors import NotPermittedError, SourceError, StorageError
from rechannel.sources.input_files.listing import (
    _globbed,
    bare,
    fixed_part,
    hidden,
    is_remote,
    local_files,
)


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def found(pattern: Path, seen: frozenset[str] = frozenset()) -> set[str]:
    return {file.path.rpartition("/")[2] for file in local_files(str(pattern), seen.__contains__)}


@pytest.mark.parametrize(
    ("path", "remote"),
    [
        ("/data/*.parquet", False),
        ("data", False),
        ("file:/data", False),
        ("file:///data", False),
        ("hdfs://host/data", True),
        ("s3a://bucket", True),
        ("viewfs:/data", True),
    ],
)
def test_tells_local_paths_from_others(path, remote):
    assert is_remote(path) is remote


@pytest.mark.parametrize(
    ("path", "plain"),
    [("file:///a/b", "/a/b"), ("file:/a", "/a"), ("hdfs://h:1/a", "/a"), ("a/b:c/d", "a/b:c/d")],
)
def test_takes_scheme_and_host_away(path, plain):
    assert bare(path) == plain


def test_the_fixed_part_ends_before_the_first_wildcard():
    assert fixed_part("/a/_b/*/c/x?.csv") == "/a/_b"
    assert fixed_part("/a/b.csv") == "/a/b.csv"
    assert fixed_part("/a/{b,c}/d") == "/a"


@pytest.mark.parametrize(
    ("path", "pattern", "is_hidden"),
    [
        ("/in/a.csv", "/in/*", False),
        ("/in/_a.csv", "/in/*", True),
        ("/in/.a.csv", "/in/*", True),
        ("/in/_temporary/a.csv", "/in", True),
        ("/_in/a.csv", "/_in/*", False),
        ("/in/_a.csv", "/in/_a.csv", True),
        ("/in/a.csv.crc", "/in/*", True),
        ("/in/a.csv._COPYING_", "/in/*", True),
        ("/in/a.csv.tmp", "/in/*", True),
        ("hdfs://h:9/in/_t/a.csv", "hdfs://h/in/*", True),
        ("hdfs://h:9/in/t/a.csv", "hdfs://h/in/*", False),
    ],
)
def test_hidden_files_are_no_data(path, pattern, is_hidden):
    assert hidden(path, pattern) is is_hidden


def test_a_glob_finds_what_it_says(tmp_path):
    make(tmp_path, "a.csv", "b.csv", "c.txt", "sub/d.csv", "_e.csv", ".f.csv")
    assert found(tmp_path / "*.csv") == {"a.csv", "b.csv"}
    assert found(tmp_path / "**" / "*.csv") == {"a.csv", "b.csv", "d.csv"}
    assert found(tmp_path / "a.csv") == {"a.csv"}
    assert found(tmp_path / "nothing*") == set()


def test_a_directory_stands_for_all_files_below_it(tmp_path):
    make(tmp_path, "x/a", "x/y/b", "x/_temporary/c", "x/.git/d", "x/_SUCCESS", "x/.a.crc", "z/e")
    assert found(tmp_path / "x") == {"a", "b"}
    assert found(tmp_path / "*") == {"a", "b", "e"}


def test_files_already_seen_are_left_out_by_path(tmp_path):
    make(tmp_path, "a", "b")
    assert found(tmp_path, frozenset({str(tmp_path / "a")})) == {"b"}


def test_says_time_and_size(tmp_path):
    make(tmp_path, "a")
    os.utime(tmp_path / "a", ns=(0, 1_234_567_891_234_567))
    (file,) = local_files(str(tmp_path), lambda _: False)
    assert (file.modified_ms, file.size) == (1_234_567_891, 1)


def test_a_dangling_link_is_no_file(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "nowhere")
    assert found(tmp_path) == set()


def test_a_directory_that_cannot_be_listed_is_named(tmp_path, monkeypatch):
    make(tmp_path, "x/a")

    def refuse(top: str, onerror, followlinks: bool):
        assert followlinks
        onerror(PermissionError(13, "Permission denied", f"{top}/closed"))
        return iter(())

    monkeypatch.setattr(os, "walk", refuse)
    with pytest.raises(NotPermittedError, match="closed: Permission denied"):
        found(tmp_path / "x")


# What is no file of rows ---------------------------------------------------------------------------


def odd_ones(pattern: Path) -> tuple[set[str], list[str]]:
    told: list[str] = []
    files = {
        f.path.rpartition("/")[2] for f in local_files(str(pattern), lambda _: False, told.append)
    }
    return files, told


@pytest.mark.parametrize("pattern", [".", "*", "**"])
def test_a_pipe_is_told_and_not_waited_for(tmp_path, pattern):
    make(tmp_path, "a")
    os.mkfifo(tmp_path / "pipe")
    files, told = odd_ones(tmp_path / pattern)
    assert files == {"a"}
    assert told == [f"{tmp_path}/pipe is not a file, but a pipe, a socket or a device"]


def test_links_that_lead_nowhere_are_told(tmp_path):
    make(tmp_path, "a")
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    (tmp_path / "itself").symlink_to(tmp_path / "itself")
    files, told = odd_ones(tmp_path / "*")
    assert files == {"a"}
    assert sorted(text.partition(" ")[2] for text in told) == [
        "is a broken link",
        "is a link to itself",
    ]


@pytest.mark.parametrize("pattern", ["in", "in/*", "in/**", "in/**/*"])
def test_a_link_back_up_is_not_followed_round(tmp_path, pattern):
    make(tmp_path, "in/a", "in/deep/b")
    for name in ("one", "two"):  # two of them would be followed for ever
        (tmp_path / "in" / "deep" / name).symlink_to(tmp_path / "in")
    told: list[str] = []
    paths = [f.path for f in local_files(str(tmp_path / pattern), lambda _: False, told.append)]
    inside = [path.removeprefix(f"{tmp_path}/") for path in paths]
    assert {"in/a", "in/deep/b"} <= set(inside)
    assert len(inside) < 10
    assert told
    assert all("is a link to a directory above it" in text for text in told)


def test_a_link_to_another_directory_is_followed(tmp_path):
    make(tmp_path, "elsewhere/a", "in/b")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "elsewhere")
    assert odd_ones(tmp_path / "in") == ({"a", "b"}, [])


@pytest.mark.parametrize("pattern", ["*", "**"])
def test_a_name_that_is_not_utf8_is_refused_with_what_it_is(tmp_path, pattern):
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    odd.touch()
    with pytest.raises(SourceError, match=r"/caf\\xe9 is not UTF-8.*rename it"):
        odd_ones(tmp_path / pattern)
    odd.rename(tmp_path / f"_{odd.name}")
    assert odd_ones(tmp_path / pattern) == (set(), [])


def test_a_directory_that_is_not_there_yet_holds_nothing(tmp_path):
    for pattern in ("none", "none/*", "none/**", "none/**/*.csv"):
        assert odd_ones(tmp_path / pattern) == (set(), [])


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("**", {"a.csv", "b.csv", "c.txt", "d.csv"}),
        ("**/*.csv", {"a.csv", "b.csv", "d.csv"}),
        ("x/**/*.csv", {"b.csv", "d.csv"}),
        ("**/y/*.csv", {"d.csv"}),
        ("*/**", {"b.csv", "c.txt", "d.csv"}),
    ],
)
def test_two_stars_are_any_number_of_directories(tmp_path, pattern, expected):
    make(tmp_path, "a.csv", "x/b.csv", "x/c.txt", "x/y/d.csv")
    assert odd_ones(tmp_path / pattern)[0] == expected


def test_a_directory_that_goes_while_it_is_listed_is_passed_over(tmp_path):
    make(tmp_path, "a", "old/b")
    files = local_files(str(tmp_path), lambda _: False)
    assert next(files).path.endswith("/a")
    shutil.rmtree(tmp_path / "old")
    assert list(files) == []


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.EIO, StorageError), (errno.EACCES, NotPermittedError)]
)
def test_what_may_heal_is_a_failure_of_the_store(tmp_path, monkeypatch, number, kind):
    make(tmp_path, "sub/a")
    real = os.scandir

    def scandir(path="."):
        if str(path).endswith("/sub"):
            raise OSError(number, os.strerror(number), str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(StorageError, match="cannot list") as raised:
        list(local_files(str(tmp_path), lambda _: False))
    assert type(raised.value) is kind


@pytest.mark.parametrize("pattern", ["*/*", "*/part-*", "eu/part-*", "e?/*", "*/part-1"])
def test_a_directory_that_may_not_be_listed_is_named_whatever_the_pattern(
    tmp_path, monkeypatch, pattern
):
    make(tmp_path, "eu/part-1", "us/part-1")
    real_list, real_look = os.scandir, os.lstat

    def refused(path):
        if "/eu" in str(path):
            raise PermissionError(13, "Permission denied", str(path))

    def scandir(path="."):
        refused(path)
        return real_list(path)

    def lstat(path, **given):
        if str(path).endswith("/eu/part-1"):
            refused(path)
        return real_look(path, **given)

    assert found(tmp_path / pattern) == {"part-1"}
    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(os, "lstat", lstat)
    with pytest.raises(NotPermittedError, match="eu"):
        found(tmp_path / pattern)


PATTERNS = (
    *("*", "a*", "[ab]*", "*/*", "*/*.txt", "sub/./*", "sub//x.txt", "nothing/*", "a/*", ".*"),
    *("*/.*", "sub/", "*/", "a[*]"),
)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_match_as_those_of_glob_do(tmp_path, pattern):
    make(tmp_path, "a", "a*", "b", "sub/x.txt", "sub/y", ".hidden/z", "sub/.hid", "deep/er/w")
    whole = f"{tmp_path}/{pattern}"
    theirs = {path.replace("//", "/").rstrip("/") for path in glob.glob(whole)}  # noqa: PTH207
    ours = set(_globbed("", whole[1:].split("/")))
    if pattern.endswith("/"):
        ours = {path for path in ours if Path(path).is_dir()}
    assert ours == theirs
