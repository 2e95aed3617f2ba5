"""The labels: what is the matter with each application, by construction.

A label is never adapted to what a diagnosis says. Its application is built so that one cause takes most of its time;
`mended` is the same application without the cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

LOGS = Path(__file__).parent / "logs"
LOCAL = "local[4]"
TWO_CORES = "local[2]"
CLUSTER = "local-cluster[2,2,1024]"
HOSTS = "hosts"
"""A standalone cluster of two hosts with two cores each, which speculation asks for."""
HEALTHY = ""

SHUFFLE = "spark.sql.shuffle.partitions"
BROADCAST = "spark.sql.autoBroadcastJoinThreshold"
ADAPTIVE = "spark.sql.adaptive.enabled"
MEMORY = "spark.driver.memory"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Label:
    """An application, and what a diagnosis of its log has to say first."""

    name: str
    """Of the log; with `-` as `_`, of the function in the file of the family."""
    family: str
    """The file with the application."""
    cause: str
    """Name of the first finding; HEALTHY if there must not be one of weight."""
    master: str = LOCAL
    settings: Mapping[str, str] = field(default_factory=dict)
    mended: Mapping[str, str] | None = None
    """Settings of the mended twin that differ; None if there is no twin."""
    accepted: tuple[str, ...] = ()
    """Other causes with which an engineer would be content."""
    logs: Path = LOGS
    """Where the log of its suite is."""

    @property
    def function(self) -> str:
        """Name of the function that runs the application."""
        return self.name.replace("-", "_")

    @property
    def twin(self) -> str:
        """Name of the log of the mended twin."""
        return f"{self.name}-mended"

    def log(self, *, mended: bool = False) -> Path:
        """Where the log is."""
        return self.logs / f"{self.twin if mended else self.name}.zstd"

    def configuration(self, *, mended: bool = False) -> dict[str, str]:
        """Settings of Spark."""
        return {**self.settings, **((self.mended or {}) if mended else {})}


LABELS = (
    Label(
        name="skewed-join",
        family="skewed",
        cause="skew",
        settings={SHUFFLE: "8", BROADCAST: "-1"},
        mended={},
    ),
    Label(
        name="skewed-aggregation",
        family="skewed",
        cause="skew",
        settings={SHUFFLE: "8"},
        mended={},
    ),
    Label(name="one-partition", family="partitions", cause="too-few-partitions", mended={}),
    Label(
        name="thousands-of-partitions",
        family="partitions",
        cause="too-many-partitions",
        settings={SHUFFLE: "1200"},
        mended={SHUFFLE: "8"},
    ),
    Label(name="last-wave", family="partitions", cause="idle-cores", mended={}),
    Label(name="small-files", family="partitions", cause="small-files", mended={}),
    Label(
        name="spilling-sort",
        family="memory",
        cause="spill",
        settings={MEMORY: "600m", "spark.memory.fraction": "0.15"},
        mended={MEMORY: "4g", "spark.memory.fraction": "0.6"},
    ),
    Label(
        name="small-heap",
        family="memory",
        cause="garbage-collection",
        settings={SHUFFLE: "4", MEMORY: "512m"},
        # A heap that grows step by step is collected at each of them.
        mended={MEMORY: "5g", "spark.driver.extraJavaOptions": "-Xms5g"},
    ),
    Label(
        name="cache-too-large",
        family="memory",
        cause="cache-lost",
        settings={MEMORY: "512m", "spark.memory.fraction": "0.1"},
        mended={MEMORY: "3g", "spark.memory.fraction": "0.6"},
    ),
    Label(
        name="many-names",
        family="driver",
        cause="planning",
        settings={SHUFFLE: "4", BROADCAST: "-1"},
        mended={},
    ),
    Label(
        name="large-broadcast",
        family="driver",
        cause="broadcast-building",
        settings={MEMORY: "3g", SHUFFLE: "4"},
        mended={},
    ),
    Label(
        name="collected-rows",
        family="driver",
        cause="collecting-results",
        settings={MEMORY: "3g"},
        mended={},
    ),
    Label(name="busy-driver", family="driver", cause="driver-program", mended={}),
    Label(name="slow-function", family="driver", cause="python-function", mended={}),
    Label(
        name="slow-host",
        family="executors",
        cause="slow-executor",
        master=CLUSTER,
        mended={},
    ),
    Label(
        name="killed-executor",
        family="executors",
        cause="lost-executor",
        master=CLUSTER,
        mended={},
    ),
    Label(
        name="executors-requested-late",
        family="executors",
        cause="late-executors",
        master=CLUSTER,
        settings={
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.enabled": "true",
            "spark.dynamicAllocation.minExecutors": "0",
            "spark.dynamicAllocation.initialExecutors": "0",
            "spark.dynamicAllocation.maxExecutors": "2",
            "spark.dynamicAllocation.schedulerBacklogTimeout": "8s",
            "spark.dynamicAllocation.sustainedSchedulerBacklogTimeout": "1s",
        },
        mended={
            "spark.dynamicAllocation.minExecutors": "2",
            "spark.dynamicAllocation.initialExecutors": "2",
        },
    ),
    Label(
        name="deleted-shuffle-files",
        family="executors",
        cause="fetch-failure",
        master=CLUSTER,
        settings={ADAPTIVE: "false", SHUFFLE: "4"},
        mended={},
    ),
    Label(
        name="hanging-hosts",
        family="executors",
        cause="speculation",
        master=HOSTS,
        settings={
            "spark.speculation": "true",
            "spark.speculation.multiplier": "1.5",
            "spark.speculation.quantile": "0.5",
        },
        mended={},
    ),
    Label(
        name="stream-of-small-batches",
        family="streams",
        cause="small-batches",
        mended={},
    ),
    Label(
        name="stream-with-hot-word",
        family="streams",
        cause="stream-skew",
        settings={SHUFFLE: "4"},
        mended={},
    ),
    Label(name="stream-to-slow-sink", family="streams", cause="slow-sink", mended={}),
    Label(
        name="stream-with-slow-state",
        family="streams",
        cause="slow-state-store",
        settings={
            SHUFFLE: "48",
            "spark.sql.streaming.stateStore.providerClass": (
                "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
            ),
            "spark.sql.streaming.stateStore.rocksdb.compactOnCommit": "true",
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
        },
        mended={
            SHUFFLE: "4",
            "spark.sql.streaming.stateStore.rocksdb.compactOnCommit": "false",
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        },
    ),
    Label(
        name="stream-that-forgets-nothing",
        family="streams",
        cause="watermark",
        settings={SHUFFLE: "4", MEMORY: "2g"},
        mended={},
    ),
    Label(
        name="stream-above-capacity",
        family="streams",
        cause="rate-above-capacity",
    ),
    Label(name="batch-etl", family="healthy", cause=HEALTHY, master=TWO_CORES),
    Label(
        name="even-join",
        family="healthy",
        cause=HEALTHY,
        settings={SHUFFLE: "8", BROADCAST: "-1"},
    ),
    Label(
        name="aggregation",
        family="healthy",
        cause=HEALTHY,
        master=TWO_CORES,
        settings={SHUFFLE: "8"},
    ),
    Label(name="cached-iteration", family="healthy", cause=HEALTHY, settings={MEMORY: "2g"}),
    Label(
        name="query-of-several-stages",
        family="healthy",
        cause=HEALTHY,
        master=TWO_CORES,
        settings={SHUFFLE: "6", BROADCAST: "-1"},
    ),
    Label(name="stream-that-keeps-up", family="healthy", cause=HEALTHY),
    Label(
        name="stateful-stream",
        family="healthy",
        cause=HEALTHY,
        settings={SHUFFLE: "4"},
    ),
    Label(name="short", family="healthy", cause=HEALTHY),
)
