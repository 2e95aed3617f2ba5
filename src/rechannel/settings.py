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
"""Bytes of a timestep for every task that runs at once, if its memory is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a job runs, unless the dataflow says otherwise.

    `tasks`, `bins`, `interval_ms` and `in_flight` hold when a stream begins. From then on they are part of its
    Configuration, which the journal keeps over restarts, and are changed live.
    """

    tasks: int | None = None
    """Tasks per operator; None = the session's default parallelism."""
    bins: int = 256
    """Bins per stateful operator, by convention a power of two. 256 cost nothing measurable, and are enough to balance
    a hundred tasks."""
    interval_ms: int = 0
    """Distance between timestep starts; 0 = as soon as possible."""
    catch_up: bool = False
    """Whether a timestep that leaves rows unread makes the next one begin earlier: at once, if it leaves as many as it
    has read. For sources whose timesteps are bounded and that can tell their backlog. False = the interval bounds the
    rate at which a stream reads."""
    in_flight: int = 1
    """Timesteps in flight at once. 1 = the next one starts when the last is committed. 2 = source tasks of a timestep
    overlap the state work of the previous one: more throughput, a little more latency."""
    inline_rows: int = 0
    """Rows of a timestep up to which the driver runs it itself, in its own process and with one task of each operator:
    without the two or more stages of Spark, which cost more than such a timestep. Only where all sources are read by
    their own readers, and nothing of the program needs Spark. 0 = Spark runs every timestep."""
    poll_ms: int = 5
    """How long to wait before looking again at sources that had nothing."""
    keep_versions: int = 4
    """Committed timesteps that `job.state(name, timestep=t)` can look back to."""
    snapshot_every: int = 64
    """Commits between two snapshots of the journal: a restart reads the entries of at most this many. While sinks owe
    timesteps, one more for every 64 of these."""
    clock_jump_ms: int = 600_000
    """How far the wall clock may run ahead of elapsed time while a driver runs. A larger jump is ignored and reported
    as a trouble: timers would fire too early, and time never goes back."""
    downtime_ms: int = 400 * 86_400_000
    """How far the wall clock may be ahead of the last timestep when a driver starts."""
    replan_after: int | None = None
    """Number of drivers in a row that may end while they replay a timestep. Then it is planned anew from the last
    committed offsets, under the bounds of the present program. None = only by `start(replan=True)` or
    `rechannel repair`. It never happens by itself if a `for_each_batch` straight after a source may have shown the
    timestep; a warning says so."""
    durability: Durability = Durability.POWER
    """POWER = what a commit names survives a power cut (fsync). PROCESS = it survives the death of every process, as
    Spark's own state stores promise on a local file system."""
    publish_backlog: int = 8
    """Committed timesteps that a sink may lag behind before new ones wait."""
    merging: MergePolicy = field(default_factory=MergePolicy)
    """How state is merged."""
    patience: Patience = field(default_factory=Patience)
    """How long, and how often, a timestep is retried that failed because of the cluster or the store."""
    telemetry: bool = True
    """Whether the event stream is written to the state directory. Progress is kept in any case."""
    timestep_bytes: int | None = None
    """About how many bytes of rows in memory a timestep reads from all sources. Sources that can be bounded have equal
    shares; one row group, batch or row always passes. None = derived from the memory of the session's executors. Every
    start reads it; `rc.changes.set_bound` takes precedence."""
    task_bytes: int | None = None
    """Bytes of rows, and of what is made of them, that one task holds at once. A task that receives more in a timestep
    spills to the local disk and goes through its keys in parts. None = derived from the memory of a Python worker of
    the session, or 1 GiB."""
    cache: str | None = None
    """A directory on the local disk of every executor host, which caches the state that its tasks wrote and read. A
    worker's environment variable RECHANNEL_CACHE_DIR takes precedence. None = no cache, which is right on one host,
    where the state directory is mapped; for an object store, a directory below the temporary one."""
    cache_bytes: int = 32 << 30
    """What the cache of a host may hold; the least recently used goes first."""

    def __post_init__(self) -> None:
        """Refuse numbers that cannot work."""
        lowest = {
            "bins": 1,
            "in_flight": 1,
            "inline_rows": 0,
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
            f"{name} stays {held}: the stream has its own since it began, and the {asked} of the settings is"
            f" ignored; job.reconfigure(rc.changes.{change}({asked})) changes it"
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
            f"tasks of {tasks} stay unchanged: the stream has its own since it began, and the {settings.tasks} of the"
            " settings is ignored;"
            f" job.reconfigure(rc.changes.rescale({tasks[0]!r}, {settings.tasks})) changes it"
        )
    bins = [
        name
        for name, one, two in pairs
        if one.routing and two.routing and len(one.routing.starts) != len(two.routing.starts)
    ]
    if bins:
        yield (
            f"bins of {bins} stay unchanged: the stream has its own since it began, and the {settings.bins} of the"
            f" settings is ignored; job.reconfigure(rc.changes.split({bins[0]!r}, bin)) and"
            " rc.changes.merge change them"
        )
