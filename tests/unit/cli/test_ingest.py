"""`rechannel ingest`: a process of its own, asked to stop and killed; and removing files."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from rechannel.cli import execute
from rechannel.cli.ingest import _token
from rechannel.errors import RefusedError
from tests.support.ingesting import NDJSON, kept, posted, writer_of
from tests.unit.ingest.test_retention import read_all, there

ROOT = Path(__file__).parents[3]


@pytest.fixture
def start(tmp_path):
    """Start a server; returns the process and its URL."""
    running = []
    token = tmp_path / "token"
    token.write_text("s3cret\n")

    def call(*options):
        program = "from rechannel.cli import main; main()"
        command = [sys.executable, "-c", program, "ingest", str(tmp_path / "log")]
        given = ["--port", "0", "--token-file", str(token), *options]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        process = subprocess.Popen(
            [*command, *given], stderr=subprocess.PIPE, text=True, env=environment
        )
        running.append(process)
        line = process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + process.stderr.read()
        return process, found[0]

    yield call
    for process in running:
        process.kill()
        process.wait()
        process.stderr.close()


def send(url, n, sequence):
    return httpx.post(
        f"{url}/rows",
        content=b'{"n": %d}' % n,
        params={"producer": "p", "sequence": sequence},
        headers={"Authorization": "Bearer s3cret", **NDJSON},
        trust_env=False,
    )


def test_it_serves_until_it_is_asked_to_stop(start, tmp_path):
    process, url = start("--schema", "n BIGINT", "--linger", "0ms")
    assert send(url, 1, 1).json()["repeated"] is False
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert "the log has 1 rows" in process.stderr.read()
    process, url = start()
    assert send(url, 1, 1).json()["repeated"] is True
    process.kill()
    process.wait()
    _, url = start()
    assert send(url, 2, 2).json()["repeated"] is False
    assert kept(tmp_path / "log") == [1, 2]


def test_options_that_are_wrong_are_told_before_anything_is_made(tmp_path, capsys):
    log = str(tmp_path / "log")
    for options, words in (
        ([], "give its columns"),
        (["--schema", "n"], "cannot read the columns"),
        (["--schema", "n BIGINT", "--request-bytes", "8 apples"], "not a size"),
        (["--schema", "n BIGINT", "--linger", "1h"], "not a length of time"),
        (["--schema", "n BIGINT", "--token-file", "nowhere"], "the token cannot be read"),
        (["--only-remove"], "needs --remove-read-by"),
        (["--only-remove", "--remove-read-by", "state"], "no ingest log"),
    ):
        assert execute(["ingest", log, *options]) == 2
        assert words in capsys.readouterr().err
    assert not Path(log).exists()


def test_files_that_a_job_has_read_are_removed(tmp_path, capsys):
    writer = writer_of(tmp_path / "log", every=1)
    for n in range(1, 5):
        writer.keep([posted([n])])
        writer.checkpoint()
    read_all(tmp_path / "log", tmp_path / "state")
    command = ["ingest", str(tmp_path / "log"), "--only-remove"]
    assert execute([*command, "--remove-read-by", str(tmp_path / "state")]) == 0
    assert "removed 3 files: read up to 4, removed up to 3" in capsys.readouterr().err
    assert there(tmp_path / "log") == [4]


def test_a_running_server_removes_them_too(start, tmp_path):
    writer = writer_of(tmp_path / "log", every=1)
    for n in range(1, 5):
        writer.keep([posted([n])])
        writer.checkpoint()
    read_all(tmp_path / "log", tmp_path / "state")
    process, _ = start("--remove-read-by", str(tmp_path / "state"))
    assert "removed 3 files" in process.stderr.readline()
    assert there(tmp_path / "log") == [4]


def test_the_token_of_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("RECHANNEL_TOKEN", "here")
    assert _token(None) == "here"
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(RefusedError, match="is empty"):
        _token(tmp_path / "empty")
