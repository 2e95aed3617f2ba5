"""`rc.scaling_advice`."""

from __future__ import annotations

from pathlib import Path

from rechannel.advising.saved import StateDirectories
from rechannel.scaling.files.api import READERS, AnyAdvice, read_advice
from rechannel.scaling.files.ds2 import Question, System
from rechannel.scaling.files.request import Request

ALL_READERS = (StateDirectories(), *READERS)
"""Every kind of file; the first that recognises a path reads it."""


def scaling_advice(  # noqa: PLR0913 - what may be asked, each with a default
    path: str | Path,
    *,
    interval: float | None = None,
    rate: float | None = None,
    utilisation: float = 0.8,
    executor_cores: int | None = None,
    policy: str = "ds2-timesteps",
    window: float = 10.0,
    query: str | None = None,
    system: System = "flink",
    factor: float = 0.0,
    threshold: float | None = None,
    topology: str | Path | None = None,
    source_rates: str | Path | None = None,
    operator_rates: str | Path | None = None,
) -> AnyAdvice:
    """Return how much a recorded stream or application needs, and from which measurements that follows.

    path: the state directory of a job; the event log of a Spark application; a directory with DS2's files
    (`*topology*`, `*rates*`), or the file of rates.

    Of a job or a Spark application:

    interval: seconds between timesteps or batches; None = what it had. rate: rows per second that arrive; None = what
    was measured. utilisation: share of the interval that may be used. executor_cores: of each executor; None = what
    they had. policy, window: of a job, the policy that is asked, and the seconds that a window covers. query: of an
    application, the only stream to advise.

    Of DS2's files:

    system: the engine that wrote them; for "timely" the advice is a number of workers. factor: share of instances in
    addition. threshold: if no operator lacks instances, and sources emit so many times less than they should, the
    numbers grow by that ratio. topology, source_rates, operator_rates: files that are not in the directory, or have
    other names.

    Returns a StreamAdvice (`rc.monitoring`), a LogAdvice or a ScalingAdvice, by the kind of the files.

    Raises RefusedError for what cannot be asked, TraceError for files with bad lines, DamagedStateError for a state
    directory that cannot be read.
    """
    asked = Request(
        system=system,
        factor=factor,
        threshold=threshold,
        topology=_path(topology),
        source_rates=_path(source_rates),
        operator_rates=_path(operator_rates),
        interval_ms=None if interval is None else interval * 1e3,
        rate=rate,
        utilisation=utilisation,
        query=query,
        executor_cores=executor_cores,
        policy=policy,
        window_s=window,
    )
    Question(system=system, factor=factor, threshold=threshold)
    return read_advice(Path(path), asked, ALL_READERS)


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)
