"""Another text of a program, loaded in the process that runs one."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rechannel.errors import DataflowError, NotReadyError, RefusedError
from rechannel.program_files import beside
from rechannel.program_files.beside import loaded_beside
from rechannel.program_files.loading import load
from rechannel.program_files.modules import LoadedModules


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with a program and what it imports, none of it loaded."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    monkeypatch.setenv("PYSPARK_PYTHON", os.environ.get("PYSPARK_PYTHON", sys.executable))
    (tmp_path / "rules_beside.py").write_text("LIMIT = 1\n")
    (tmp_path / "text.py").write_text("import rules_beside\nfound = rules_beside.LIMIT\n")
    yield tmp_path
    for name in ours():
        del sys.modules[name]


def ours() -> set[str]:
    """The loaded modules that are programs or lie beside one."""
    return {name for name in sys.modules if name.startswith(("rechannel_program_", "rules_beside"))}


def test_a_text_that_is_not_kept_leaves_the_process_as_it_was(place):
    file = place / "text.py"
    path, before = list(sys.path), ours()
    with loaded_beside(file, file.read_bytes(), LoadedModules(time.time())) as made:
        assert made.module.found == 1
        assert "rules_beside" in sys.modules
    assert (sys.path, ours()) == (path, before)


def test_a_text_that_is_kept_takes_the_place_of_the_running_one(place):
    file = place / "text.py"
    running = load(file)
    known = LoadedModules(time.time())
    file.write_text("import rules_beside\nfound = 10 * rules_beside.LIMIT\n")
    with loaded_beside(file, file.read_bytes(), known):
        pass
    assert sys.modules[running.__name__] is running
    with loaded_beside(file, file.read_bytes(), known) as made:
        made.keep()
    assert sys.modules[running.__name__].found == 10
    assert running.found == 1


def test_the_bytes_that_were_compared_are_those_that_run(place):
    file = place / "text.py"
    data = file.read_bytes()
    file.write_text("found = 'written since'")
    with loaded_beside(file, data, LoadedModules(time.time())) as made:
        assert made.module.found == 1


def test_a_neighbour_that_is_loaded_must_be_the_one_that_lies_there(place):
    file = place / "text.py"
    load(file)
    known = LoadedModules(time.time())
    (place / "rules_beside.py").write_text("LIMIT = 2\n")
    with (
        pytest.raises(RefusedError, match="module 'rules_beside' is loaded from"),
        loaded_beside(file, file.read_bytes(), known),
    ):
        pass


def test_a_neighbour_of_another_directory_counts_if_it_is_the_same(place, tmp_path):
    load(place / "text.py")
    known = LoadedModules(time.time())
    release = tmp_path / "release"
    release.mkdir()
    file = release / "text.py"
    file.write_text("import rules_beside\nfound = 5\n")
    (release / "rules_beside.py").write_text("LIMIT = 1\n")
    with loaded_beside(file, file.read_bytes(), known) as made:
        assert made.module.found == 5
    (release / "rules_beside.py").write_text("LIMIT = 9\n")
    with (
        pytest.raises(RefusedError, match="give the module another name"),
        loaded_beside(file, file.read_bytes(), known),
    ):
        pass


def test_a_neighbour_that_was_loaded_later_is_told_by_the_time_of_its_file(place):
    file = place / "text.py"
    early = LoadedModules(time.time() - 3600)
    late = LoadedModules(time.time() + 3600)
    load(file)
    with (
        pytest.raises(RefusedError, match="is another by now"),
        loaded_beside(file, file.read_bytes(), early),
    ):
        pass
    with loaded_beside(file, file.read_bytes(), late) as made:
        assert made.module.found == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1/0\n", "cannot be imported:\n.*ZeroDivisionError"),
        ("import sys\nsys.exit(3)\n", "ends the process"),
        ("def\n", "SyntaxError"),
    ],
)
def test_a_text_that_fails_is_undone(place, text, said):
    file = place / "text.py"
    with (
        pytest.raises(DataflowError, match=f"(?s){said}"),
        loaded_beside(file, text.encode(), LoadedModules(time.time())),
    ):
        pass
    assert not ours()


def test_a_text_does_not_wait_for_ever_for_one_that_hangs(place, monkeypatch):
    monkeypatch.setattr(beside, "TURN_SECONDS", 0.01)
    file, known = place / "text.py", LoadedModules(time.time())
    with loaded_beside(file, file.read_bytes(), known):
        other = loaded_beside(file, file.read_bytes(), known)
        with pytest.raises(NotReadyError, match="cannot be loaded while another program is"):
            other.__enter__()
    with loaded_beside(file, file.read_bytes(), known) as again:
        assert again.module.found == 1
