"""Which files requests may deploy, and what is run to find out."""

from __future__ import annotations

import sys
import time
from hashlib import sha256
from pathlib import Path

import pytest

from rechannel.errors import RefusedError
from rechannel.serve import closed
from rechannel.serve.closed import check_neighbours
from rechannel.serve.failures import ForbiddenError
from rechannel.serve.programs import Deploys, Programs, programs_of

TEXT = "import sys\nsys.modules['rechannel_text_ran'] = sys\nmade = 7\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory that is allowed, `programs`, and files beside it that are not."""
    programs = tmp_path / "programs"
    (programs / "inner").mkdir(parents=True)
    for file in (programs / "text.py", programs / "inner" / "deep.py", tmp_path / "other.py"):
        file.write_text(TEXT)
    (programs / "data.txt").write_text(TEXT)
    (programs / "link.py").symlink_to(tmp_path / "other.py")
    (tmp_path / "programs-too").mkdir()
    (tmp_path / "programs-too" / "text.py").write_text(TEXT)
    return programs


@pytest.mark.parametrize("asked", ["text.py", "inner/deep.py", "./inner/../text.py"])
def test_files_in_an_allowed_directory_are_found(place, asked):
    found = programs_of(str(place)).found(asked)
    assert found.is_relative_to(place)
    assert programs_of([str(place)]).found(str(found)) == found


@pytest.mark.parametrize(
    "asked",
    [
        *("../other.py", "inner/../../other.py", "link.py", "../programs-too/text.py"),
        *("data.txt", "inner", "missing.py", "", ".", "/etc/passwd", "text.py\0", "x" * 5000),
        "import os; os.abort()",
    ],
)
def test_nothing_else_is(place, asked):
    with pytest.raises(ForbiddenError, match="is no program that requests may deploy") as one:
        Programs(places=(str(place),)).found(asked)
    absolute = str(place.parent / "other.py")
    with pytest.raises(ForbiddenError) as other:
        Programs(places=(str(place),)).found(absolute)
    assert str(one.value).replace(repr(asked), "") == str(other.value).replace(repr(absolute), "")


def test_a_single_file_may_be_allowed(place):
    only = Programs(places=(str(place / "text.py"),))
    assert only.found("text.py") == place / "text.py"
    with pytest.raises(ForbiddenError):
        only.found("inner/deep.py")


def test_what_every_user_may_write_is_refused(place):
    (place / "inner").chmod(0o777)
    assert Programs(places=(str(place),)).found("text.py")
    with pytest.raises(RefusedError, match="may be written by every user"):
        Programs(places=(str(place),)).found("inner/deep.py")
    place.chmod(0o777)
    with pytest.raises(RefusedError, match="chmod o-w it"):
        Programs(places=(str(place),))


@pytest.mark.parametrize(("mode", "refused"), [(0o777, True), (0o1777, False), (0o755, False)])
def test_a_place_that_every_user_may_replace_is_refused(place, mode, refused):
    programs = programs_of(str(place))
    place.parent.chmod(mode)
    try:
        if not refused:
            assert programs.found("text.py")
            return
        with pytest.raises(
            RefusedError, match="every user of this machine may replace what lies in"
        ):
            programs.found("text.py")
        with pytest.raises(RefusedError, match="chmod o-w it"):
            programs_of(str(place))
    finally:
        place.parent.chmod(0o755)


@pytest.mark.parametrize("open_to_all", ["helper.py", "inner", "inner/deep.py", "__pycache__"])
def test_a_text_beside_modules_that_every_user_may_write_is_not_run(
    place, open_to_all, monkeypatch
):
    monkeypatch.delitem(sys.modules, "rechannel_text_ran", raising=False)
    (place / "__pycache__").mkdir()
    (place / "helper.py").write_text("made = 7\n")
    mode = (place / open_to_all).stat().st_mode
    (place / open_to_all).chmod(mode | 0o002)
    deploys = Deploys(Programs(places=(str(place),)), int, time.time())
    with (
        pytest.raises(RefusedError, match=f"{open_to_all} may be written by every user"),
        deploys.loaded("text.py", "made", None),
    ):
        pass
    assert "rechannel_text_ran" not in sys.modules
    (place / open_to_all).chmod(mode)
    (place / "data.txt").chmod(0o666)  # no module
    (place / "loop").symlink_to(place)
    with deploys.loaded("text.py", "made", None) as text:
        assert text.job == 7
    sys.modules.pop("rechannel_text_ran", None)


def test_a_link_to_a_module_that_every_user_may_replace_is_refused(place):
    elsewhere = place.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "helper.py").write_text("")
    (place / "helper.py").symlink_to(elsewhere / "helper.py")
    check_neighbours(place)
    elsewhere.chmod(0o777)
    with pytest.raises(RefusedError, match="elsewhere may be written by every user"):
        check_neighbours(place)


def test_a_directory_with_too_many_files_is_refused(place, monkeypatch):
    monkeypatch.setattr(closed, "MOST_ENTRIES", 3)
    with pytest.raises(RefusedError, match=r"more than 3 files lie in .* a directory of their own"):
        check_neighbours(place)


def test_a_place_that_is_missing_is_refused(place):
    with pytest.raises(RefusedError, match="there is no file or directory"):
        Programs(places=(str(place / "nothing"),))


def test_without_places_nothing_is_deployed(place):
    deploys = Deploys(Programs(), int, time.time())
    with (
        pytest.raises(ForbiddenError, match="lie in nowhere"),
        deploys.loaded(str(place / "text.py"), None, None),
    ):
        pass
    assert "rechannel_text_ran" not in sys.modules


def test_another_file_than_the_one_that_is_meant_is_not_run(place, monkeypatch):
    monkeypatch.delitem(sys.modules, "rechannel_text_ran", raising=False)
    deploys = Deploys(Programs(places=(str(place),)), int, time.time())
    with (
        pytest.raises(RefusedError, match="is another file"),
        deploys.loaded("text.py", "made", "0" * 64),
    ):
        pass
    assert "rechannel_text_ran" not in sys.modules
    digest = sha256(TEXT.encode()).hexdigest()
    with deploys.loaded("text.py", "made", digest) as text:
        assert (text.job, text.sha256) == (7, digest)
        assert text.what == f"{place / 'text.py'} (SHA-256 {digest[:12]})"
    sys.modules.pop("rechannel_text_ran", None)
