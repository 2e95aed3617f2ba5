"""What may be there at most, by formulas: a stream that goes on for ever must not grow for ever.

Let F be the largest fan that any driver merged with, T the timesteps that were committed, and
L = ceil(log_F T) + 1 the levels that so many timesteps can fill. Then

- no hash lies in more than F * L runs (twice that is the theory; half of it is what is ever seen);
- there are at most so many runs per key, and per task where keys are fewer than tasks;
- a key of an aggregate has at most a row in each of them;
- after a sweep there are the files that kept versions name, and no others but what attempts left of timesteps that come
  after the latest commit: they may have been withdrawn, and go when others of their numbers are committed;
- the journal has the entries of as many commits as two snapshots lie apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from rechannel.engine.journal.state import JournalState
from rechannel.state.keys import JOURNAL, SEGMENTS, SINK_BUFFERS, SNAPSHOTS, timestep_of
from rechannel.state.manifest import Manifest
from rechannel.state.run import Run
from rechannel.state.store import Store


def levels(timesteps: int, fan: int) -> int:
    """Levels that so many timesteps fill."""
    return math.ceil(math.log(max(2, timesteps), fan)) + 1


def depth(runs: Iterable[Run]) -> int:
    """In how many runs a hash lies at most."""
    edges = [edge for run in runs for lo, hi in run.clip for edge in ((lo, 1), (hi, -1))]
    deepest = now = 0
    for _, step in sorted(edges):
        now += step
        deepest = max(deepest, now)
    return deepest


def deepest(timesteps: int, fan: int) -> int:
    """Bound of `depth`."""
    return fan * levels(timesteps, fan)


def check_manifest(name: str, manifest: Manifest, timesteps: int, fan: int) -> None:
    """No hash lies in too many runs, no run counts nowhere, and none is named twice."""
    runs = manifest.state
    found, most = depth(runs), deepest(timesteps, fan)
    assert found <= most, f"{name}: {found} runs over one hash, {most} at most"
    assert len(manifest.segments()) == len(manifest.runs), f"{name}: a segment is named twice"
    assert all(run.clip for run in manifest.runs), f"{name}: runs that count nowhere"


def check_growth(state: JournalState, fan: int) -> None:
    """`check_manifest` of every operator, as of the latest commit."""
    for name, manifest in state.manifests.items():
        check_manifest(name, manifest, state.last_committed or 1, fan)


def check_runs(name: str, manifest: Manifest, keys: int, tasks: int, most: int) -> None:
    """A run of state holds at least a key, or lies in the way of a slice: the number of runs follows keys and tasks."""
    runs = manifest.state
    bound = most * (min(keys, len(runs)) + tasks)
    assert len(runs) <= bound, f"{name}: {len(runs)} runs, {bound} at most for {keys} keys"


def check_files(store: Store, state: JournalState) -> None:
    """After a sweep that nothing overtakes: files of kept versions, nothing else up to the latest commit."""
    named = set[str]().union(*(version.files() for version in state.versions.values()))
    there = {*store.list(SEGMENTS), *store.list(SINK_BUFFERS)}
    last = state.last_committed or 0
    ahead = {key for key in there if (timestep_of(key) or 0) > last}
    assert there <= named | ahead, f"nobody names {sorted(there - named - ahead)[:5]}"


def check_journal(store: Store, snapshot_every: int, per_commit: int, others: int) -> None:
    """Entries of as many commits as two snapshots lie apart. others: those that come without a commit."""
    entries, snapshots = [*store.list(JOURNAL)], [*store.list(SNAPSHOTS)]
    assert len(snapshots) <= 2, f"{len(snapshots)} snapshots"
    most = 2 * (snapshot_every + 1) * per_commit + others
    assert len(entries) <= most, f"{len(entries)} entries of the journal, {most} at most"
