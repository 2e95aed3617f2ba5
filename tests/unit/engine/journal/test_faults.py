"""Drivers that die, sleep and come back, by schedules that hypothesis writes.

The twin is a list: what was reported as committed must be a prefix of what the journal says, in
one order, whoever wrote it; what the journal says beyond it is at most the one entry whose writer
died before it heard of it.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rechannel.engine.journal.entries import Committed, Intent, Opened
from rechannel.engine.journal.log import Journal
from rechannel.engine.journal.reading import read_only
from rechannel.errors import FencedError, StorageError
from rechannel.model.configuration import Configuration
from rechannel.state.stores.faulty import Crash, Fault, FaultKind, FaultyStore
from rechannel.state.stores.memory import MemoryStore

FAULTS = st.builds(
    Fault,
    kind=st.sampled_from(FaultKind),
    kept=st.floats(0, 0.99),
)
SCRIPTS = st.lists(st.none() | st.none() | st.none() | FAULTS, max_size=12)


class Driver:
    """One process: commits timesteps whose result is (timestep, who committed it)."""

    def __init__(self, disk: MemoryStore, name: int, script: list[Fault | None]) -> None:
        self.name = name
        self.store = FaultyStore(disk, script)
        self.journal: Journal | None = None

    def step(self, heard: list[tuple[int, int]]) -> None:
        if self.journal is None:
            journal, _ = Journal.open(self.store, keep_versions=2, snapshot_every=2)
            who = Opened(host="h", pid=self.name, time_ms=0, fingerprint="", version="0")
            journal.append(who)
            self.journal = journal
            return
        state = self.journal.state
        if not state.open_intents:
            known = state.last_committed is not None
            self.journal.append(
                Intent(
                    timestep=state.last_committed + 1 if known else 1,
                    sources={},
                    configuration_version=1,
                    stream_ms=0,
                    configuration=None if known else Configuration(),
                )
            )
            return
        timestep = state.open_intents[0].timestep
        log = [*state.offsets.get("log", []), [timestep, self.name]]
        self.journal.append(Committed(timestep=timestep, offsets={"log": log}))
        heard.append((timestep, self.name))


@given(st.lists(SCRIPTS, min_size=1, max_size=6), st.data())
def test_there_is_one_story(scripts, data):
    disk = MemoryStore()
    heard: list[tuple[int, int]] = []
    waiting = [Driver(disk, name, script) for name, script in enumerate(scripts)]
    drivers: list[Driver] = [waiting.pop(0)]
    for _ in range(60):
        if not drivers:
            break
        if waiting and data.draw(st.integers(0, 9)) == 0:
            drivers.append(waiting.pop(0))
        driver = data.draw(st.sampled_from(drivers))
        try:
            driver.step(heard)
        except (Crash, FencedError, StorageError):
            drivers.remove(driver)
            drivers += waiting[:1]
            del waiting[:1]
    state = read_only(disk)
    story = [tuple(told) for told in state.offsets.get("log", [])]
    assert [timestep for timestep, _ in story] == list(range(1, len(story) + 1))
    assert state.last_committed == (len(story) or None)
    # Every commit that its driver heard of is in the story, in the order in which it was heard.
    places = [story.index(told) for told in heard]
    assert places == sorted(places)
