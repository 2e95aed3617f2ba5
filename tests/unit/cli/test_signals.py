"""How a command is told to end: at its start, while it runs, and the second time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rechannel.cli import signals
from rechannel.cli.signals import Asked, ending_at_once, to_main_thread


def test_sigterm_while_a_program_is_imported_ends_the_command():
    def starts():
        with ending_at_once():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)

    with pytest.raises(SystemExit) as caught:
        starts()
    assert caught.value.code == 143


def test_the_first_signal_asks_and_the_same_one_again_is_no_second(monkeypatch):
    ended = []
    monkeypatch.setattr(signals, "_end", ended.append)
    now = [100.0]
    before = signal.getsignal(signal.SIGTERM)
    with Asked(lambda: now[0]) as listening:
        asked = listening.asked
        assert not asked.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked.wait(60)
        now[0] += 0.9
        os.kill(os.getpid(), signal.SIGTERM)
        assert ended == []
        now[0] += 0.1
        os.kill(os.getpid(), signal.SIGINT)
        assert ended == [130]
    assert signal.getsignal(signal.SIGTERM) is before


def test_what_another_thread_hears_reaches_the_main_thread():
    with Asked() as listening:
        asked = listening.asked
        thread = threading.Thread(target=to_main_thread, args=("TERM",), daemon=True)
        thread.start()
        assert asked.wait(60)


STARTS = """
import pathlib, time
pathlib.Path(BEGUN).touch()
time.sleep(600)
"""
HANGS = """
import pathlib, signal, threading, time
import pyarrow as pa
import rechannel as rc

def rows(start, stop):
    return pa.record_batch({"n": range(start, stop)})

def hangs(batch):
    while getattr(signal.getsignal(signal.SIGTERM), "__name__", "") != "on_signal":
        time.sleep(0.01)
    pathlib.Path(BEGUN).touch()
    threading.Event().wait()

s = rc.read().generator(rows, schema="n BIGINT", per_timestep=100)
job = rc.Job("one", s.map_batches(hangs, schema="x INT").write.noop(), state=STATE)
"""


@pytest.fixture
def program(tmp_path):
    """Write a program; its path."""

    def write(text: str) -> Path:
        path = tmp_path / "program.py"
        names = {"BEGUN": tmp_path / "begun", "STATE": tmp_path / "state"}
        for name, value in names.items():
            text = text.replace(name, repr(str(value)))
        path.write_text(text)
        return path

    return write


def run(path: Path) -> subprocess.Popen[bytes]:
    arguments = ["run", str(path), "--in-process"]
    code = f"import sys; from rechannel.cli import main; sys.argv[1:] = {arguments!r}; main()"
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)


def until_there(child: subprocess.Popen[bytes], path: Path) -> None:
    while not path.exists():
        assert child.poll() is None
        time.sleep(0.01)


def test_a_command_ends_while_its_program_is_loaded(program, tmp_path):
    with run(program(STARTS)) as child:
        try:
            until_there(child, tmp_path / "begun")
            child.send_signal(signal.SIGTERM)
            assert child.wait(60) == 143
        finally:
            child.kill()


def test_a_second_signal_ends_at_once(program, tmp_path):
    with run(program(HANGS)) as child:
        try:
            until_there(child, tmp_path / "begun")
            child.send_signal(signal.SIGTERM)
            for line in child.stderr:
                if b"stopping: finishing" in line:
                    break
            while child.poll() is None:  # what comes within a second is the first one
                child.send_signal(signal.SIGTERM)
                time.sleep(0.1)
            assert child.wait(60) == 143
        finally:
            child.kill()


def test_the_launcher_is_a_file_that_spark_submit_takes(rechannel):
    path = rechannel("--launcher").out.strip()
    assert path.endswith(".py")
    # Modules beside it have names of the standard library, such as `profile`.
    done = subprocess.run(
        [sys.executable, path, "--version"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.startswith("rechannel ")) == (0, True), done
