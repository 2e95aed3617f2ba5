"""State in stores on other hosts: their promises, faults on the way to them, kills, and two drivers.

S3 is versitygw, a server for production; Google Cloud Storage and Azure are emulators, of which the first is helped
(`components/gcs.py`); HDFS is HDFS.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rechannel as rc
from rechannel.engine.journal.reading import read_only
from rechannel.errors import FencedError, RefusedError, StateInUseError
from rechannel.job import InProcess
from rechannel.state.stores.local import Durability
from rechannel.state.stores.locations import open_backing
from rechannel.state.stores.probe import ROUNDS, WRITERS, check_promises
from tests.real.components.proxy import Faults, Proxy
from tests.real.components.s3 import S3
from tests.real.components.server import ObjectServer
from tests.real.kills import kill_drivers
from tests.spark.programs import (
    PATIENCE,
    PLAIN,
    ledger,
    outputs,
    run,
    session,
    start,
    states,
    until,
)
from tests.unit.state.stores.test_stores import BackingContract

OTHERS = ("gs", "az")
KINDS = ("s3", *OTHERS, "hdfs")
WITH_SLOW = ["s3", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[1:])]


def at(url: str) -> Any:
    """The store at a URL."""
    return open_backing(url, Durability.POWER)


def own_folder(place: Path) -> str:
    """The name of a folder that no other test has."""
    return f"{place.name}-{random.randrange(1 << 40):x}"


@pytest.fixture
def bucket(kind: str, stores: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a folder that no other test has."""
    server = stores(kind)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return str(server.url(own_folder(tmp_path)))


@pytest.mark.parametrize("kind", WITH_SLOW)
class TestStoreOnAnotherHost(BackingContract):
    @pytest.fixture
    def store(self, bucket):
        return at(bucket)


@pytest.mark.parametrize("kind", WITH_SLOW)
def test_it_keeps_its_promises(bucket):
    store = at(bucket)
    check_promises(store, bucket, rounds=60)
    assert [*store.list("")] == []


def proxied(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch, faults: Faults
) -> Iterator[Proxy]:
    proxy = Proxy(server.port, faults)
    port = proxy.start()
    for name, value in server.environment(port).items():
        monkeypatch.setenv(name, value)
    yield proxy
    proxy.stop()


@pytest.fixture
def server(kind: str, stores: Any) -> ObjectServer:
    """A server that speaks HTTP."""
    found = stores(kind)
    assert isinstance(found, ObjectServer)
    return found


@pytest.fixture
def troubled(server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy in front of the server, to which the environment leads; it makes no trouble yet."""
    yield from proxied(server, monkeypatch, Faults())


@pytest.mark.parametrize("kind", WITH_SLOW[: len(OTHERS) + 1])
def test_a_server_that_does_not_know_conditional_requests_is_refused(troubled, server, tmp_path):
    troubled.faults.blind = True
    job = rc.Job("j", ledger(tmp_path / "out"), state=server.url(own_folder(tmp_path)))
    with pytest.raises(
        RefusedError, match=rf"state cannot be kept at {server.scheme}://.*it let 8 of 8 writers"
    ):
        job.start(in_process=InProcess())
    assert troubled.did["blind"] == (WRITERS - 1) * ROUNDS


@pytest.mark.slow
def test_a_server_that_looks_and_then_writes_is_refused(tmp_path, monkeypatch):
    server = S3(tmp_path, server="s3s")
    server.start()
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    url = server.url("refused")
    try:
        with pytest.raises(RefusedError, match=r"it let \d of 8 writers create"):
            check_promises(at(url), url)
    finally:
        server.kill()


ROWS, PER_TIMESTEP = 6_000, 300


def in_process(place: Path, url: str) -> tuple[Any, Any]:
    """State and output of a ledger."""
    flows = ledger(place / "out", rows=ROWS, per_timestep=PER_TIMESTEP)
    settings = rc.Settings(**PLAIN, cache=str(place / "cache"))
    job = rc.Job("ledger", flows, state=url, settings=settings).start(in_process=InProcess())
    try:
        job.process_all_available(PATIENCE)
    finally:
        job.stop(PATIENCE)
    return states(job), outputs(place / "out")


FAULTS = {
    "refused": Faults(refused=0.1),
    "dropped": Faults(dropped=0.1),
    "unanswered": Faults(unanswered=0.1),
    "cut": Faults(cut=0.2),
    "all": Faults(latency_s=0.002, refused=0.05, dropped=0.05, unanswered=0.05, cut=0.1),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", WITH_SLOW[: len(OTHERS) + 1])
def test_faults_on_the_way_change_nothing(troubled, server, tmp_path, fault):
    folder = own_folder(tmp_path)
    expected = in_process(tmp_path / "calm", server.url(f"{folder}/calm"))
    assert not set(troubled.did) & set(vars(FAULTS["all"]))
    requests = troubled.did.total()
    assert requests > 100
    troubled.faults = FAULTS[fault]
    found = in_process(tmp_path / "troubled", server.url(f"{folder}/troubled"))
    assert found == expected
    wanted = [name for name, share in vars(FAULTS[fault]).items() if name != "latency_s" and share]
    assert wanted
    assert all(troubled.did[name] > 2 for name in wanted), troubled.did


# On Spark ------------------------------------------------------------------------------------------


def journal_in(url: str) -> Any:
    return read_only(at(url))


def drive(place: str, url: str, rows: int) -> int:
    """Process everything there is. The process is killed somewhere in between."""
    flows = ledger(f"{place}/out", rows=rows, per_timestep=PER_TIMESTEP)
    more = {"in_flight": 2, "cache": f"{place}/cache"}
    job = run(session(place), flows, url, **more)
    return job.status.timestep or 0


@pytest.mark.parametrize("kills", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_drivers_and_servers_are_killed(own_store, child, tmp_path, monkeypatch, kills):
    killed(own_store("s3"), child, tmp_path, monkeypatch, kills)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS[1:])
def test_drivers_and_servers_of_other_kinds_are_killed(
    own_store, child, tmp_path, monkeypatch, kind
):
    killed(own_store(kind), child, tmp_path, monkeypatch, 8)


def killed(server: Any, child: Any, place: Path, monkeypatch: Any, kills: int) -> None:
    """Kill drivers, and take the server away before each fourth kill; the result is as if nothing had been."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    timesteps, url, vanished = 3 * kills + 4, server.url(place.name), []

    def vanish(number: int, choose: random.Random) -> None:
        if number % 4 == 3:
            vanished.append(number)
            server.vanish()
            time.sleep(choose.uniform(0, 1.0))
            server.start()
            time.sleep(choose.uniform(0, 0.3))

    rows = timesteps * PER_TIMESTEP
    given = {"place": str(place / "b"), "url": url, "rows": rows}
    ended = kill_drivers(child, drive, given, at(url), kills=kills, between=vanish)
    assert len(vanished) == kills // 4
    assert ended == timesteps
    expected = child(twice, place=str(place), url=url, rows=rows).result(PATIENCE)
    assert expected == "the same"


def twice(place: str, url: str, rows: int) -> str:
    """Compare what the killed drivers left with a run that nothing happens to."""
    spark = session(place)
    flows = ledger(f"{place}/a/out", rows=rows, per_timestep=PER_TIMESTEP)
    calm = run(spark, flows, f"{place}/a/state")
    flows = ledger(f"{place}/b/out", rows=rows, per_timestep=PER_TIMESTEP)
    left = run(spark, flows, url, cache=f"{place}/b/cache")
    if states(left) != states(calm):
        return "other state"
    return "the same" if outputs(f"{place}/a/out") == outputs(f"{place}/b/out") else "other output"


def slowly(batch: Any) -> Any:
    """A front function that leaves time to take over."""
    time.sleep(0.3)
    return batch


def first_driver(place: str, url: str) -> list[str]:
    """Run until something stops it; what that was."""
    flows = ledger(f"{place}/out", front=slowly)
    job = start(session(place), flows, url, in_flight=2, cache=f"{place}/cache")
    try:
        job.process_all_available(PATIENCE)
    except FencedError as error:
        return ["FencedError", str(error)]
    return ["nothing", ""]


def second_driver(place: str, url: str) -> str:
    """Take over from the first one, which must not be asked to go by chance; compare with a calm run."""
    spark = session(place)
    Path(place, "ready").touch()
    until(Path(place, "stopped").exists, "the first driver is stopped")
    settings = {"cache": f"{place}/cache"}
    try:
        start(spark, ledger(f"{place}/out"), url, **settings)
    except StateInUseError:
        pass
    else:
        return "it was not refused"
    job = start(spark, ledger(f"{place}/out"), url, takeover=True, **settings)
    job.process_all_available(PATIENCE)
    job.stop()
    calm = run(spark, ledger(f"{place}/calm/out"), f"{place}/calm/state")
    same = (states(job), outputs(f"{place}/out")) == (states(calm), outputs(f"{place}/calm/out"))
    return "the same" if same else "not the same"


@pytest.mark.parametrize("kind", WITH_SLOW)
def test_a_driver_that_was_replaced_commits_nothing(bucket, child, tmp_path):
    # The second driver is ready when the first one is stopped: the sign that this one is awake ages.
    second = child(second_driver, place=str(tmp_path), url=bucket)

    def ready() -> bool:
        assert second.running, second.errors()
        return (tmp_path / "ready").exists()

    until(ready, "the second driver has a session")
    first = child(first_driver, place=str(tmp_path), url=bucket)

    def commits() -> bool:
        assert first.running, first.errors()
        return bool(journal_in(bucket).last_committed)

    until(commits, "the first driver commits")
    first.send(signal.SIGSTOP)
    (tmp_path / "stopped").touch()
    assert second.result(PATIENCE) == "the same"
    after, out = journal_in(bucket), outputs(tmp_path / "out")
    assert (after.epoch, after.closed) == (2, True)
    first.send(signal.SIGCONT)
    kind, message = first.result(PATIENCE)
    assert (kind, "took over in epoch 2" in message) == ("FencedError", True), message
    assert journal_in(bucket) == after
    assert outputs(tmp_path / "out") == out
