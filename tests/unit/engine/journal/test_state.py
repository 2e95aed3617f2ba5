from __future__ import annotations

import random
from dataclasses import replace

import pytest
from msgspec import structs

from rechannel.engine.journal.entries import (
    Body,
    Closed,
    Committed,
    ConfigurationChanged,
    Entry,
    Intent,
    Note,
    Notes,
    Opened,
    Published,
    SourceRange,
    Withdrawn,
)
from rechannel.engine.journal.folds.fold import fold
from rechannel.engine.journal.kept import Version
from rechannel.engine.journal.referenced import unreferenced
from rechannel.engine.journal.snapshot import from_bytes, to_bytes
from rechannel.engine.journal.state import JournalState
from rechannel.errors import DamagedStateError, NewerFormatError, NotReadyError
from rechannel.model.bytimestep import PIECE
from rechannel.model.codec import decode, encode
from rechannel.model.configuration import Configuration
from rechannel.model.hashspace import SPACE, Intervals
from rechannel.state.keys import segment_key, sink_buffer_key
from rechannel.state.manifest import Edit, Manifest
from rechannel.state.run import Run
from rechannel.state.sealed import seal

OPENED = Opened(host="h", pid=7, time_ms=1, fingerprint="f", version="0", keep_versions=2)


def run(timestep: int, task: int = 0) -> Run:
    return Run(
        segment=segment_key(operator="counts", timestep=timestep, task=task, attempt="0"),
        clip=Intervals.everything(),
        seq=timestep,
        level=0,
        rows=10,
        size=100,
        span=SPACE,
    )


def intent(timestep: int, version: int = 1, given: Configuration | None = None) -> Intent:
    sources = {"s": SourceRange(start=timestep - 1, end=timestep)}
    return Intent(
        timestep=timestep,
        sources=sources,
        configuration_version=version,
        stream_ms=0,
        configuration=given,
    )


def first(timestep: int = 1) -> Intent:
    return intent(timestep, 1, Configuration())


def commit(timestep: int, **more) -> Committed:
    edits = {"counts": Edit(add=(run(timestep),))}
    return Committed(timestep=timestep, edits=edits, offsets={"s": timestep}, **more)


def told(*bodies: Body, state: JournalState | None = None) -> JournalState:
    state = state or JournalState()
    for body in bodies:
        epoch = state.epoch + isinstance(body, Opened)
        state = fold(state, Entry(number=state.next_number, epoch=epoch, body=body))
    return state


def test_nothing_told_is_a_state():
    state = JournalState()
    assert (state.number, state.next_number, state.epoch) == (0, 1, 0)
    assert state.manifests == {}
    assert state.last_intended is None
    with pytest.raises(NotReadyError, match="no configuration for timestep 1"):
        state.configuration_at(1)


def test_every_driver_begins_an_epoch():
    state = told(OPENED, Closed(time_ms=5))
    assert state.closed
    state = told(replace(OPENED, pid=8), state=state)
    assert (state.epoch, state.driver.pid, state.closed) == (2, 8, False)
    assert state.keep_versions == 2


def test_drivers_are_known_by_their_epochs():
    assert told(OPENED).drivers == {}
    named = [replace(OPENED, id=f"d{epoch}") for epoch in range(2, 301)]
    state = told(OPENED, *named)
    assert state.drivers == {epoch: f"d{epoch}" for epoch in range(45, 301)}
    between = told(OPENED, named[0], OPENED, named[2], Closed(time_ms=5))
    assert between.drivers == {2: "d2", 4: "d4"}
    assert from_bytes(to_bytes(between), name="snapshot").drivers == between.drivers


def test_notes_of_one_entry_hold_together():
    state = told(OPENED, Note(kind="a", body=1), Notes(bodies={"a": None, "b": 2, "c": 3}))
    assert state.notes == {"b": 2, "c": 3}


@pytest.mark.parametrize("epoch", [0, 2])
def test_entries_of_other_epochs_are_refused(epoch):
    with pytest.raises(ValueError, match=f"is of epoch {epoch}"):
        fold(told(OPENED), Entry(number=2, epoch=epoch, body=Closed(time_ms=0)))


def test_the_first_entry_is_an_opening():
    with pytest.raises(ValueError, match="epoch 0"):
        told(Note(kind="a", body=1))


@pytest.mark.parametrize("number", [1, 3])
def test_numbers_have_no_gaps(number):
    with pytest.raises(ValueError, match=f"entry {number} does not follow entry 1"):
        fold(told(OPENED), Entry(number=number, epoch=1, body=Closed(time_ms=0)))


def test_a_closed_journal_takes_nothing_but_an_opening():
    with pytest.raises(ValueError, match="had closed"):
        told(OPENED, Closed(time_ms=0), Note(kind="a", body=1))


def test_timesteps_are_open_between_intent_and_commit():
    state = told(OPENED, first(), intent(2), intent(3))
    assert [i.timestep for i in state.open_intents] == [1, 2, 3]
    assert (state.last_committed, state.last_intended) == (None, 3)
    state = told(commit(1), state=state)
    assert [i.timestep for i in state.open_intents] == [2, 3]
    assert (state.last_committed, state.last_intended) == (1, 3)
    state = told(commit(2), commit(3), state=state)
    assert (state.last_committed, state.last_intended, state.open_intents) == (3, 3, ())
    assert state.offsets == {"s": 3}


@pytest.mark.parametrize("timestep", [0, 1, 3])
def test_timesteps_are_intended_without_gaps(timestep):
    with pytest.raises(ValueError, match="the next one is 2"):
        told(OPENED, first(), intent(timestep))


@pytest.mark.parametrize("timestep", [0, 2, 3])
def test_timesteps_are_committed_in_order(timestep):
    with pytest.raises(ValueError, match=r"open, in this order, are \[1, 2\]"):
        told(OPENED, first(), intent(2), commit(timestep))


def test_the_first_timestep_may_have_any_number():
    assert told(OPENED, first(41), commit(41)).last_committed == 41


def test_a_commit_edits_the_manifests_it_names():
    both = Edit(add=(run(1),))
    state = told(OPENED, first(), Committed(timestep=1, edits={"counts": both, "late": both}))
    merged = Edit(retire=(((1,), Intervals.everything()),), add=(run(2),))
    state = told(intent(2), Committed(timestep=2, edits={"counts": merged}), state=state)
    assert state.manifests == {"counts": Manifest((run(2),)), "late": Manifest((run(1),))}
    assert state.versions[1].manifests["late"].runs[0] is state.manifests["late"].runs[0]


def test_the_latest_versions_stay():
    state = told(OPENED, first(), commit(1), intent(2), commit(2), intent(3), commit(3))
    assert list(state.versions) == [2, 3]
    assert [r.seq for r in state.versions[2].manifests["counts"].runs] == [2, 1]
    more = structs.replace(state, keep_versions=1)
    assert list(more.versions) == [3]
    with pytest.raises(ValueError, match="at least 1"):
        structs.replace(state, keep_versions=0)


def test_staged_results_wait_until_they_are_published():
    staged = {"out": ["a"], "copy": ["b"]}
    state = told(OPENED, first(), commit(1, staged=staged), intent(2), commit(2))
    assert state.unpublished == {1: staged}
    state = told(Published(timestep=1, sink="out"), state=state)
    assert state.unpublished == {1: {"copy": ["b"]}}
    with pytest.raises(ValueError, match="sink 'out' has nothing to publish of timestep 1"):
        told(Published(timestep=1, sink="out"), state=state)
    state = told(Published(timestep=1, sink="copy"), state=state)
    assert state.unpublished == {}
    with pytest.raises(ValueError, match="timestep 2"):
        told(Published(timestep=2, sink="out"), state=state)


def change(timestep: int, version: int) -> ConfigurationChanged:
    changed = Configuration(version=version)
    return ConfigurationChanged(from_timestep=timestep, configuration=changed, cause="test")


def test_configurations_hold_from_their_timestep_on():
    state = told(OPENED, first(), change(3, 2), change(4, 3))
    assert [state.configuration_at(t).version for t in (1, 2, 3, 4, 99)] == [1, 1, 2, 3, 3]
    state = told(intent(2), intent(3, 2), state=state)
    with pytest.raises(ValueError, match="intended under configuration 2"):
        told(intent(4, 2), state=state)


def test_a_later_change_voids_what_was_planned_behind_it():
    state = told(OPENED, first(), change(3, 2), change(4, 3), change(4, 4), change(5, 5))
    state = told(change(4, 6), state=state)
    assert [(since, c.version) for since, c in state.configurations] == [(1, 1), (3, 2), (4, 6)]


@pytest.mark.parametrize("timestep", [0, 1])
def test_what_is_intended_keeps_its_configuration(timestep):
    with pytest.raises(ValueError, match="1 is fixed"):
        told(OPENED, first(), change(timestep, 2))


def test_an_intent_may_bring_its_configuration():
    with pytest.raises(ValueError, match="not the one that holds"):
        told(OPENED, intent(1))
    state = told(OPENED, first(), change(9, 7), intent(2, 5, Configuration(version=5)))
    assert [(since, c.version) for since, c in state.configurations] == [(1, 1), (2, 5), (9, 7)]


def test_open_timesteps_can_be_withdrawn():
    state = told(OPENED, first(), commit(1), intent(2), change(4, 2), intent(3), intent(4, 2))
    after = told(Withdrawn(from_timestep=3, reason="too large"), state=state)
    assert [i.timestep for i in after.open_intents] == [2]
    assert after.last_intended == 2
    assert after.offsets == {"s": 1}
    # What was decided for later timesteps holds from there on.
    assert [(since, c.version) for since, c in after.configurations] == [(1, 1), (3, 2)]
    again = told(commit(2), intent(3, 2), intent(4, 2), commit(3), state=after)
    assert again.last_committed == 3


@pytest.mark.parametrize("timestep", [1, 4, 0])
def test_only_open_timesteps_can_be_withdrawn(timestep):
    state = told(OPENED, first(), commit(1), intent(2), intent(3))
    with pytest.raises(
        ValueError, match=rf"{timestep} cannot be withdrawn.*open timesteps: \[2, 3\]"
    ):
        told(Withdrawn(from_timestep=timestep, reason=""), state=state)


def test_a_stream_that_never_committed_anything_begins_anew():
    state = told(OPENED, first(), Withdrawn(from_timestep=1, reason=""))
    assert (state.last_intended, state.configurations) == (None, ())
    assert told(first(), commit(1), state=state).last_committed == 1


def test_drivers_that_take_up_an_open_timestep_are_counted():
    state = told(OPENED, first(), intent(2))
    assert state.attempts == 1
    state = told(OPENED, OPENED, state=state)
    assert state.attempts == 3
    assert from_bytes(to_bytes(state), name="x").attempts == 3
    assert told(commit(1), state=state).attempts == 1
    assert told(commit(1), commit(2), state=state).attempts == 0
    assert told(Withdrawn(from_timestep=2, reason=""), state=state).attempts == 3
    assert told(Withdrawn(from_timestep=1, reason=""), state=state).attempts == 0
    assert told(Closed(time_ms=0), OPENED, state=told(OPENED)).attempts == 0


def test_configurations_before_the_kept_versions_go():
    state = told(OPENED, first(), change(2, 2), change(3, 3), commit(1), intent(2, 2), commit(2))
    assert [since for since, _ in state.configurations] == [1, 2, 3]
    state = told(intent(3, 3), commit(3), intent(4, 3), commit(4), state=state)
    assert [since for since, _ in state.configurations] == [3]
    assert state.configuration_at(4).version == 3


def test_the_latest_note_of_a_kind_stays():
    state = told(OPENED, Note(kind="a", body=1), Note(kind="b", body=[2]), Note(kind="a", body=3))
    assert state.notes == {"a": 3, "b": [2]}
    assert told(Note(kind="a", body=None), state=state).notes == {"b": [2]}


def test_a_state_does_not_change():
    state = told(OPENED, first())
    told(commit(1), state=state)
    assert state.offsets == {}
    assert state.last_committed is None
    with pytest.raises(TypeError):
        state.offsets["s"] = 1


def test_unreferenced_files_are_those_nobody_can_name():
    def key(timestep: int, attempt: str = "0") -> str:
        return segment_key(operator="counts", timestep=timestep, task=0, attempt=attempt)

    def out(timestep: int) -> str:
        return sink_buffer_key(operator="counts", timestep=timestep, task=0, attempt="0")

    merged = Edit(retire=(((1, 2), Intervals.everything()),), add=(run(3),))
    state = told(OPENED, first())
    assert unreferenced(state, [key(1), key(0)]) == []
    state = told(commit(1, outbox={"counts": (out(1),)}), state=state)
    state = told(intent(2), commit(2, outbox={"counts": (out(2),)}), intent(3), state=state)
    keys = [key(1), key(2), key(2, "1"), key(3), key(3, "1"), out(1), out(2), out(3), "x.arrow"]
    assert unreferenced(state, keys) == [key(2, "1")]
    state = told(Committed(timestep=3, edits={"counts": merged}), state=state)
    assert unreferenced(state, keys) == [key(2, "1"), key(3, "1"), out(1), out(3)]
    state = told(intent(4), Committed(timestep=4), state=state)
    assert unreferenced(state, keys) == [
        key(1), key(2), key(2, "1"), key(3, "1"), out(1), out(2), out(3)
    ]  # fmt: skip


def rich_state() -> JournalState:
    return told(
        OPENED,
        first(),
        change(2, 2),
        commit(1, staged={"out": {"files": ["a"]}}, outbox={"counts": ("outbox/x.arrow",)}),
        intent(2, 2),
        commit(2),
        intent(3, 2),
        Note(kind="a", body={"b": None}),
        Closed(time_ms=0),
    )


@pytest.mark.parametrize("state", [JournalState(), told(OPENED), rich_state()])
def test_a_snapshot_is_read_as_it_was_written(state):
    assert from_bytes(to_bytes(state), name="x") == state


def test_a_snapshot_writes_shared_runs_once():
    state = rich_state()
    assert to_bytes(state).count(run(1).segment.encode()) == 1
    read = from_bytes(to_bytes(state), name="x")
    shared = [version.manifests["counts"].runs[-1] for version in read.versions.values()]
    assert shared[0] is shared[1]


def test_snapshots_without_sense_or_of_later_formats_are_refused():
    with pytest.raises(NewerFormatError, match="snapshot 5 has format 9"):
        from_bytes(seal({"format": 9}), name="snapshot 5")
    with pytest.raises(
        DamagedStateError, match="snapshot 5 has its right checksum but invalid content"
    ):
        from_bytes(seal({"format": 1}), name="snapshot 5")


def test_files_of_a_version():
    version = Version(
        manifests={"a": Manifest((run(1), run(2))), "b": Manifest((run(3),))},
        outbox={"a": ("outbox/x.arrow",)},
    )
    assert version.files() == {run(t).segment for t in (1, 2, 3)} | {"outbox/x.arrow"}
    assert Version().files() == set()


def test_a_digest_tells_an_intent_from_that_of_a_copy():
    mine, copy = replace(OPENED, id="aa"), replace(OPENED, id="bb")
    one = told(mine, first())
    assert one.digest(1) == first().digest("aa") != first().digest("bb")
    assert told(copy, first()).digest(1) == first().digest("bb")
    assert one.digest(2) == ""


def test_a_digest_stays_until_a_timestep_is_published_and_is_no_version_any_more():
    state = told(OPENED, first(), commit(1, staged={"out": {"staged": 1}}))
    digest = state.digest(1)
    assert len(digest) == 32
    for timestep in (2, 3, 4):
        state = told(intent(timestep), commit(timestep), state=state)
    assert set(state.digests) == {1, 3, 4}
    assert from_bytes(to_bytes(state), name="s").digests == state.digests
    assert state.digest(1) == digest
    state = told(Published(timestep=1, sink="out", incarnation="sink-1"), state=state)
    assert state.digest(1) == ""


@pytest.mark.parametrize("seed", range(20))
def test_digests_are_those_of_what_is_open_unpublished_or_a_version(seed):
    chance = random.Random(seed)
    state = told(replace(OPENED, keep_versions=chance.randint(1, 4)), first())
    happened: set[str] = set()
    for _ in range(120):
        can = ["intend"] + ["commit", "withdraw"] * bool(state.open_intents)
        can += ["publish", "publish"] * bool(state.unpublished) + ["open"]
        does = chance.choice(can)
        happened.add(does)
        state = told(random_body(does, state, chance), state=state)
        open_ones = {one.timestep for one in state.open_intents}
        assert set(state.digests) == {*state.versions, *state.unpublished, *open_ones}
    assert happened == {"intend", "commit", "withdraw", "publish", "open"}
    again = from_bytes(to_bytes(state), name="s")
    assert (again.digests, again.unpublished) == (state.digests, state.unpublished)


def random_body(does: str, state: JournalState, chance: random.Random) -> Body:
    if does == "intend":
        known = state.configurations
        timestep = (state.last_intended or 0) + 1
        return intent(timestep) if known else first(timestep)
    if does == "commit":
        names = chance.sample(["a", "b"], chance.randint(0, 2))
        return commit(state.open_intents[0].timestep, staged={name: {} for name in names})
    if does == "withdraw":
        return Withdrawn(from_timestep=chance.choice(state.open_intents).timestep, reason="")
    if does == "publish":
        timestep = chance.choice(list(state.unpublished))
        return Published(timestep=timestep, sink=chance.choice(list(state.unpublished[timestep])))
    return replace(OPENED, keep_versions=chance.randint(1, 4))


def test_an_entry_copies_nothing_of_what_is_owed_but_what_it_changes():
    owed = {t: {"out": {}} for t in range(1, 2001)}
    state = told(OPENED, first(), commit(1, staged={"out": {}}))
    state = structs.replace(state, unpublished=owed, digests=dict.fromkeys(owed, "d"))
    after = told(Note(kind="a", body=1), state=state)
    assert after.unpublished is state.unpublished
    assert after.digests is state.digests
    after = told(Published(timestep=1999, sink="out"), state=state)
    for before, now in ((state.unpublished, after.unpublished), (state.digests, after.digests)):
        assert 1999 not in now
        assert len(now) == len(before) - 1
        copied = [n for n, piece in now._pieces.items() if piece is not before._pieces[n]]
        assert copied == [1999 // PIECE]


def test_a_later_opening_does_not_change_what_was_intended():
    state = told(replace(OPENED, id="aa"), first())
    digest = state.digest(1)
    assert told(replace(OPENED, id="bb"), state=state).digest(1) == digest


def test_notes_of_a_change_hold_from_the_same_entry():
    changed = ConfigurationChanged(
        from_timestep=1, configuration=Configuration(), cause="r1", notes={"incarnations": {"a": 1}}
    )
    assert told(OPENED, changed).notes == {"incarnations": {"a": 1}}
    assert decode(ConfigurationChanged, encode(changed)) == changed
