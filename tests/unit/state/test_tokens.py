"""Tokens that are left for commands of the same user, and the folders that they and caches lie in."""

from __future__ import annotations

import os
from pathlib import Path
from stat import S_IFDIR
from types import SimpleNamespace

import pytest

from rechannel.errors import RefusedError
from rechannel.state.owned import owned_folder, read_secret, runtime_folder, why_not_owned
from rechannel.state.tokens import leave_token, take_token_away, token_file, token_left_for


@pytest.fixture(autouse=True)
def runtime(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "rechannel"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8520"),
        ("127.0.0.1", "http://localhost:8520/"),
        ("127.0.0.2", "http://127.0.0.2:8520"),
        ("::1", "http://[::1]:8520"),
        ("::1", "http://localhost:8520"),
        ("0.0.0.0", "http://127.0.0.1:8520"),
        ("::", "http://127.0.0.1:8520"),
        ("10.1.2.3", "http://10.1.2.3:8520"),
    ],
)
def test_a_token_is_found_by_the_url(host, url):
    leave_token(host, 8520, "s3cret")
    assert token_left_for(url) == "s3cret"


@pytest.mark.parametrize(("loopback", "all_of"), [("127.0.0.1", "0.0.0.0"), ("::1", "::")])
def test_a_token_that_a_killed_server_left_hides_no_other(loopback, all_of):
    leave_token(loopback, 8520, "of a server that was killed")
    leave_token(all_of, 8520, "s3cret")
    leave_token(loopback, 8521, "another")
    assert token_left_for("http://localhost:8520") == "s3cret"
    assert token_left_for("http://localhost:8521") == "another"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8521"),
        ("127.0.0.1", "http://127.0.0.1"),
        ("127.0.0.1", "http://127.0.0.2:8520"),
        ("127.0.0.1", "http://evil.example:8520"),
        ("0.0.0.0", "http://10.1.2.3:8520"),
        ("0.0.0.0", "http://evil.example:8520"),
        ("127.0.0.1", "http://[:8520"),
        ("127.0.0.1", "http://localhost.evil.example:8520"),
    ],
)
def test_no_other_url_is_sent_it(host, url):
    leave_token(host, 8520, "s3cret")
    assert token_left_for(url) is None


def test_files_that_others_could_read_or_have_written_count_for_nothing(runtime):
    path = leave_token("127.0.0.1", 8520, "s3cret")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    assert read_secret(path) is None
    path.chmod(0o600)
    assert read_secret(path) == "s3cret"
    runtime.chmod(0o777)
    assert read_secret(path) is None
    runtime.chmod(0o700)
    path.rename(runtime / "elsewhere")
    path.symlink_to(runtime / "elsewhere")
    assert read_secret(path) is None
    path.unlink()
    os.mkfifo(path, 0o600)
    assert read_secret(path) is None


def test_what_stands_where_a_token_is_to_be_left_is_not_followed(tmp_path, runtime):
    owned_folder(runtime)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    token_file("127.0.0.1", 8520).symlink_to(victim)
    path = leave_token("127.0.0.1", 8520, "s3cret")
    assert (victim.read_text(), path.is_symlink(), path.read_text()) == (
        "precious",
        False,
        "s3cret",
    )


def test_a_token_is_taken_away_by_its_own_server_only():
    path = leave_token("127.0.0.1", 8520, "first")
    leave_token("127.0.0.1", 8520, "second")
    take_token_away(path, "first")
    assert path.read_text() == "second"
    take_token_away(path, "second")
    assert not path.exists()
    take_token_away(path, "second")


def test_without_a_runtime_folder_of_the_system_there_is_one_per_user(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert runtime_folder() == tmp_path / f"rechannel-{os.getuid()}"


def test_a_folder_is_made_for_this_user_alone(tmp_path):
    made = owned_folder(tmp_path / "a" / "b")
    assert made.stat().st_mode & 0o777 == 0o700
    assert owned_folder(made) == made
    assert why_not_owned(made) is None


def test_folders_that_are_somebody_elses(tmp_path, monkeypatch):
    folder = owned_folder(tmp_path / "folder")
    link = tmp_path / "link"
    link.symlink_to(folder)
    with pytest.raises(RefusedError, match="is a link or a file"):
        owned_folder(link)
    for mode in (0o770, 0o702):
        folder.chmod(mode)
        with pytest.raises(RefusedError, match="can be written by other users"):
            owned_folder(folder)
    for mode in (0o755, 0o750, 0o711):
        folder.chmod(mode)
        assert owned_folder(folder) == folder
        assert folder.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    with pytest.raises(RefusedError, match="belongs to another user"):
        owned_folder(folder)


def test_a_folder_that_others_can_put_another_one_in_place_of(tmp_path):
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(0o777)
    with pytest.raises(RefusedError, match="all users may replace it"):
        owned_folder(above / "folder")
    above.chmod(0o1777)  # as /tmp is: who owns a name there keeps it
    assert owned_folder(above / "folder") == Path(above / "folder")


@pytest.mark.parametrize(
    ("mode", "owner"), [(0o755, 0), (0o755, None), (0o755, 4321), (0o1755, 4321)]
)
def test_who_owns_the_folder_above_may_exchange_what_lies_in_it(tmp_path, monkeypatch, mode, owner):
    folder = owned_folder(tmp_path / "above" / "folder")
    stat = Path.stat

    def owned(path: Path, **how: bool) -> object:
        if path != folder.parent:
            return stat(path, **how)
        return SimpleNamespace(
            st_mode=S_IFDIR | mode, st_uid=os.geteuid() if owner is None else owner
        )

    monkeypatch.setattr(Path, "stat", owned)
    why = why_not_owned(folder)
    if (mode, owner) == (0o755, 4321):
        assert why is not None
        assert "is in a folder of another user" in why
    else:
        assert why is None
