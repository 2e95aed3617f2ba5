"""Rows posted over HTTP while servers, drivers and producers are killed: each is in the result once."""

from __future__ import annotations

import random
import signal
import time

import pytest

import rechannel as rc
from rechannel.ingest.server import serve_log
from rechannel.job import InProcess
from rechannel.model.ddl import schema_of
from tests.real.ingest_programs import TOKEN, Senders, Servers, check, drive
from tests.spark.programs import journal_of, until
from tests.support.ingesting import Producer


def kill_drivers(child, place, senders, kills, choose):
    """Kill a driver after it committed, and a producer, again and again. Returns how many were interrupted."""
    state, interrupted = place / "state", 0
    for number in range(kills):
        epoch = journal_of(state).epoch if state.exists() else 0
        driver = child(drive, place=str(place), per_timestep=500)

        def committed(epoch: int = epoch, driver=driver) -> bool:
            assert driver.running, driver.errors()
            if not state.exists():
                return False
            known = journal_of(state)
            return known.epoch > epoch and bool(known.last_committed)

        until(committed, "a driver commits")
        time.sleep(choose.uniform(0, 1.0))
        senders.kill(senders.names[number % len(senders.names)])
        assert driver.running, driver.errors()
        assert driver.kill() == -signal.SIGKILL
        after = journal_of(state)
        assert not after.closed, "the driver had ended of its own will"
        interrupted += bool(after.open_intents or after.unpublished)
    return interrupted


@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_servers_drivers_and_producers_are_killed(child, tmp_path, kills):
    names, choose = ["ann", "bob", "eve"], random.Random(kills)
    (tmp_path / "token").write_text(TOKEN)
    with Servers(tmp_path, choose) as servers:
        senders = Senders(tmp_path, servers.urls, names)
        try:
            interrupted = kill_drivers(child, tmp_path, senders, kills, choose)
            senders.stop()
        finally:
            senders.close()
        servers.leave_alone()
        (tmp_path / "sent").touch()
        assert child(drive, place=str(tmp_path), per_timestep=500).result() > 0
    facts = senders.facts()
    print(f"servers killed: {servers.kills}, requests: {dict(facts)}, interrupted: {interrupted}")
    assert servers.kills, "no server was killed"
    assert interrupted, "every kill happened to hit between two timesteps"
    assert facts["again"], "no producer had to send again"
    check(tmp_path, names)


def test_a_bucket_holds_the_log(s3, tmp_path, monkeypatch):
    """The same log in a bucket, written by two servers, read by a job."""
    url = f"s3://state/ingest-{tmp_path.name}-{random.randrange(1 << 40):x}"
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    with (
        serve_log(url, schema=schema_of("n BIGINT"), port=0) as one,
        serve_log(url, port=0) as other,
        Producer(one) as to_one,
        Producer(other) as to_other,
    ):
        for n in range(1, 21):
            assert to_one.send([n], producer="p", sequence=n)[1]["repeated"] is False
            assert to_other.send([n], producer="p", sequence=n)[1]["repeated"] is True
    stream = rc.read().ingested(url, per_timestep=7, name="in")
    job = rc.Job("j", stream.write.memory("out"), state=tmp_path / "state")
    running = job.start(in_process=InProcess())
    running.process_all_available()
    assert running.status.timestep == 3
    assert sorted(running.memory("out")["n"].to_pylist()) == [*range(1, 21)]
    running.stop()
