"""docs/ingest.md: its server is started, its curl commands are run, and its program reads what they sent."""

import contextlib
import io
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from rechannel.ingest.app import KINDS, UNLOCKED
from rechannel.ingest.producers import MOST

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "ingest.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(sh|json|python|text)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PROGRAM = "from rechannel.cli import main; main()"


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


@pytest.fixture
def start(port, tmp_path):
    """Start the server of a block."""
    processes = []

    def call(line):
        words = shlex.split(line)
        command = [sys.executable, "-c", PROGRAM, *words[1:], "--port", str(port)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        with (tmp_path / "told").open("wb") as told:
            processes.append(subprocess.Popen(command, stderr=told, env=environment))
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False).is_success:
                    return
            assert processes[0].poll() is None, (tmp_path / "told").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    yield call
    for process in processes:
        process.terminate()
        process.wait()


def test_the_page(start, port, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed, compared, names = "", 0, {}
    for kind, text in BLOCKS:
        if kind == "sh" and "rechannel ingest" in text:
            first, second = text.strip().splitlines()
            subprocess.run(["bash", "-c", first], check=True)
            start(second)
        elif kind == "sh":
            command = text.replace(":8521", f":{port}").replace("curl ", "curl --noproxy '*' ")
            done = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
            printed = done.stdout.decode()
        elif kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(text, "docs/ingest.md", "exec"), names)
            printed = out.getvalue()
        else:
            same = json.loads(printed) == json.loads(text) if kind == "json" else printed == text
            assert same, f"printed:\n{printed}\nthe page says:\n{text}"
            compared += 1
    assert compared == 3
    assert not names["job"].is_active


def test_every_type_and_every_bound_is_told():
    assert all(f"`{kind}`" in PAGE for kind in KINDS)
    assert all(f"`GET {path}`" in PAGE for path in UNLOCKED)
    assert f"{MOST:,} producers" in PAGE
