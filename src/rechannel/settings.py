"""Settings of a job: one frozen value, every field with its unit, default and reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rechannel.errors import RefusedError
from rechannel.model.configuration import Configuration
from rechannel.model.patience import Patience
from rechannel.state.merging import MergePolicy
from rechannel.state.stores.local import Durability

SLOT_BYTES = 256 << 20
"""Bytes of a timestep for every task that runs at once, where nothing says what memory it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a job runs where the dataflow does not say.

    tasks, bins, interval_ms and in_flight say where a stream begins. From then on they are part of its Configuration,
    which the journal keeps over restarts, and are changed live.

    tasks: tasks per operator; None = the session's default parallelism.
    bins: bins per stateful operator, a power of two by habit. 256 cost nothing measurable and are fine
    enough to balance
        a hundred tasks.
    interval_ms: distance between timestep starts; 0 = as soon as possible.
    in_flight: timesteps under way at once; 1 = the next one starts when the last is committed. 2 lets the fronts of a
        timestep overlap the state work of the one before: more throughput, a little more latency.
    poll_ms: how long to wait before asking sources again that had nothing.
    keep_versions: committed timesteps that `job.state(name, timestep=t)` can look back to.
    snapshot_every: commits between two journal snapshots: a restart reads the entries of at most this many. Where sinks
    owe timesteps, of one more for every 64 of these.
    clock_jump_ms: how far the wall clock may be ahead, while a driver runs, of the time that passes; what is further
    ahead is not believed, and told as a trouble: timers would fire that are not due, and time never goes back.
    downtime_ms: how far it may be ahead of the last timestep when a driver starts.
    replan_after: drivers that may end, one after the other, before the timestep that they were to run again is planned
    anew from the last committed offsets, in the bounds of the present program; None = never by itself, only by
    `start(replan=True)` or `rechannel repair`. By itself never either where a `for_each_batch` straight after a source
    may have shown it: that is told.
    durability: POWER = what a commit names survives a power cut (fsync); PROCESS = it survives the death of
    every process
        (what Spark's own state stores promise on a local file system).
    publish_backlog: committed timesteps that sinks may lag behind before new ones wait.
    merging: how state is merged.
    patience: for how long, and how often, a timestep runs again that failed for reasons of the cluster or the store.
    telemetry: write the event stream to the state directory; progress is kept either way.
    timestep_bytes: about how many bytes of rows in memory a timestep reads of all sources together; sources that can be
        bounded have equal shares, and one file's row group, batch or row always passes. None = derived from what the
        session's executors have. It is looked at by every start; `set_bound` goes before it.
    task_bytes: bytes of rows, and of what is made of them, that one task holds at once. One that gets more of a
        timestep keeps it on the local disk and goes through its keys part by part. None = derived from what a Python
        worker of the session may have, else 1 GiB.
    cache: a directory on the disk of every executor host, in which it keeps the state that its tasks wrote and read;
    the environment variable RECHANNEL_CACHE_DIR of a worker goes before it. None = no cache: right for one host, where
    the state directory itself is mapped, and never so for an object store, which has one below the temporary directory.
    cache_bytes: what the cache of a host may hold; what was not used for longest goes first.
    """

    tasks: int | None = None
    bins: int = 256
    interval_ms: int = 0
    in_flight: int = 1
    poll_ms: int = 5
    keep_versions: int = 4
    snapshot_every: int = 64
    clock_jump_ms: int = 600_000
    downtime_ms: int = 400 * 86_400_000
    replan_after: int | None = None
    durability: Durability = Durability.POWER
    publish_backlog: int = 8
    merging: MergePolicy = field(default_factory=MergePolicy)
    patience: Patience = field(default_factory=Patience)
    telemetry: bool = True
    timestep_bytes: int | None = None
    task_bytes: int | None = None
    cache: str | None = None
    cache_bytes: int = 32 << 30

    def __post_init__(self) -> None:
        """Refuse numbers that cannot work."""
        lowest = {
            "bins": 1,
            "in_flight": 1,
            "poll_ms": 1,
            "keep_versions": 1,
            "snapshot_every": 1,
            "publish_backlog": 1,
            "interval_ms": 0,
            "clock_jump_ms": 1,
            "downtime_ms": 1,
            "cache_bytes": 1 << 20,
        }
        for name, least in lowest.items():
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                msg = f"setting {name} must be a whole number of at least {least}, not {value!r}"
                raise RefusedError(msg)
        for name in ("tasks", "replan_after", "timestep_bytes", "task_bytes"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                msg = f"setting {name} must be at least 1, not {value!r}"
                raise RefusedError(msg)

    def unheeded(
        self, configuration: Configuration, fresh: Configuration | None = None
    ) -> list[str]:
        """What a stream that has this Configuration already does otherwise than the settings say, in sentences.

        fresh: what it would have if it began with these settings.
        """
        return [
            *_other_numbers(self, configuration, fresh or Configuration()),
            *self._other_rhythm(configuration),
        ]

    def _other_rhythm(self, configuration: Configuration) -> list[str]:
        return [
            f"{name} stays {held}: the stream has its own since it began, and the {asked} of the settings is not looked"
            f" at; job.reconfigure(rc.changes.{change}({asked})) changes it"
            for name, change in (("interval_ms", "set_interval"), ("in_flight", "set_in_flight"))
            if (held := getattr(configuration, name)) != (asked := getattr(self, name))
        ]


def _other_numbers(settings: Settings, held: Configuration, fresh: Configuration) -> Iterator[str]:
    """Operators that have other tasks or bins. Tasks that no setting names follow the session: they are not told."""
    both = sorted(held.operators.keys() & fresh.operators.keys())
    pairs = [(name, held.operators[name], fresh.operators[name]) for name in both]
    tasks = [name for name, one, two in pairs if settings.tasks and one.tasks != two.tasks]
    if tasks:
        yield (
            f"tasks of {tasks} stay as they are: the stream has its own since it began, and the {settings.tasks} of the"
            " settings is not looked at;"
            f" job.reconfigure(rc.changes.rescale({tasks[0]!r}, {settings.tasks})) changes it"
        )
    bins = [
        name
        for name, one, two in pairs
        if one.routing and two.routing and len(one.routing.starts) != len(two.routing.starts)
    ]
    if bins:
        yield (
            f"bins of {bins} stay as they are: the stream has its own since it began, and the {settings.bins} of the"
            f" settings is not looked at; job.reconfigure(rc.changes.split({bins[0]!r}, bin)) and"
            " rc.changes.merge change them"
        )
