"""Findings about failures: lost executors, shuffle files that could not be fetched, failed tasks.

What a failure costs is computed per stage. A task that failed and was run again ends later by the
time from its first launch to that of the attempt that succeeded. Without failures the stage would
end with the task that is then the last one. If a stage could not fetch, the time counts from the
launch of the first task that failed to the next attempt of the stage: its parents were computed
again meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rechannel.profiling.diagnosis.case import Case, worth
from rechannel.profiling.diagnosis.replacements import replacements
from rechannel.profiling.diagnosis.words import duration
from rechannel.profiling.model.finding import Certainty, Evidence, Finding, Place
from rechannel.profiling.model.trace import MS
from rechannel.profiling.model.words import counted, listed, percent
from rechannel.profiling.spark.application import Application, Executor, Stage
from rechannel.profiling.spark.busy import merged
from rechannel.profiling.spark.rows import FAILURES
from rechannel.profiling.spark.stage_tasks import stages_of, tasks_of
from rechannel.profiling.storage.blocks import Rows

EXCEPTION, FETCH, LOST = (
    FAILURES.index(name) for name in ("exception", "fetch failed", "executor lost")
)
SOON = 2_000
"""ms after which the loss of an executor has become known."""
SEVERAL = 100
"""Stages that are read one by one; more of them are read in one pass."""
AT_ONCE = 500
"""ms within which a task is launched if a core is free."""
RECENT = 300_000
"""ms for which the loss of an executor explains that its files cannot be fetched."""


@dataclass(slots=True)
class Cost:
    """What one kind of failure costs."""

    spans: list[tuple[int, int]] = field(default_factory=list)
    """Times by which stages ended later, Unix ms."""
    tasks: int = 0
    """Attempts that failed, or whose output was lost."""
    core_ms: float = 0.0
    """For which these ran, summed."""
    waiting: int = 0
    """Tasks that waited for the cores of executors that were lost."""
    stages: list[Stage] = field(default_factory=list)
    executors: list[Executor] = field(default_factory=list)

    @property
    def ms(self) -> float:
        """How much later the application ended; failures at the same time count once."""
        spans = merged(np.array(self.spans, dtype=np.int64).reshape(-1, 2))
        return float((spans[:, 1] - spans[:, 0]).sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """Time from the loss of an executor until another one took its place, Unix ms."""

    start: int
    end: int
    cores: int


def failures(case: Case) -> Iterator[Finding]:
    """Find work that was lost and done again."""
    app = case.app
    lost = sorted(
        (each for each in app.executors.values() if each.lost), key=lambda one: one.removed
    )
    outages = list(_outages(app, lost))
    costs = {"lost-executor": Cost(executors=lost), "fetch-failure": Cost(), "failed-work": Cost()}
    for (number, attempt), rows in _touched(app, outages):
        begun = waited(rows, outages)
        if bool(rows["good"].all()) and not len(begun):
            continue
        stage = app.stages.get((number, attempt), Stage(number=number, attempt=attempt))
        cause = _cause(app, rows, lost) or ("lost-executor" if len(begun) else None)
        if cause is not None:
            _add(costs[cause], case, stage, rows, begun if cause == "lost-executor" else {})
    length = case.run_ms
    for cause, cost in costs.items():
        if cost.stages and worth(cost.ms, length):
            yield _FINDINGS[cause](cause, app, cost, length)
        elif cause == "lost-executor" and lost:
            yield _harmless(lost, cost)


def _touched(app: Application, outages: Sequence[Outage]) -> Iterator[tuple[tuple[int, int], Rows]]:
    """Yield the stages with attempts that were of no use, and those that ran in an outage."""
    tasks = app.tasks
    keys: set[tuple[int, int]] = set()
    for rows in tasks.close().each():
        bad = rows[~rows["good"] | tasks.lost.among(rows["number"])]
        keys.update(zip(bad["stage"].tolist(), bad["attempt"].tolist(), strict=True))
    for outage in outages:
        keys.update(
            key
            for key, span in tasks.stages.items()
            if span.start < outage.end * MS and span.end > outage.start * MS
        )
    if len(keys) > SEVERAL:
        yield from (each for each in stages_of(app) if each[0] in keys)
    else:
        yield from ((key, tasks_of(app, *key)) for key in sorted(keys))


def _outages(app: Application, lost: list[Executor]) -> Iterator[Outage]:
    found = replacements(lost, app.executors.values())
    for each in lost:
        end = found[each.name].added if each.name in found else app.end
        yield Outage(start=each.removed, end=end, cores=each.cores)


def waited(rows: Rows, outages: Sequence[Outage]) -> Mapping[int, int]:
    """Return when tasks of a stage would have begun on executors that were lost, ns, by index: the
    first that were launched after the loss, or after the stage began, but not at once.
    """
    found: dict[int, int] = {}
    begun = int(rows["launch"].min())
    for outage in outages:
        free = max(begun, outage.start * MS)
        if free >= outage.end * MS or int(rows["launch"].max()) < free:
            continue
        order = np.argsort(rows["launch"], kind="stable")
        tries = rows[order]
        _, first = np.unique(tries["index"], return_index=True)
        late = tries[np.sort(first)]
        late = late[late["launch"] >= free + AT_ONCE * MS]
        for row in late[: outage.cores]:
            found.setdefault(int(row["index"]), free)
    return found


def _cause(app: Application, rows: Rows, lost: list[Executor]) -> str | None:
    """Return the kind of failure that a stage had; None if its attempts were only beaten by others."""
    bad = rows[~rows["good"] & ~rows["killed"]]
    if not len(bad):
        return None
    at = int(bad["finish"].max()) // MS + SOON
    if bool((bad["failed"] == FETCH).any()):
        gone = any(at - RECENT <= each.removed <= at for each in lost)
        return "lost-executor" if gone else "fetch-failure"
    numbers = app.tasks.executors
    gone_numbers = [numbers[each.name] for each in lost if each.name in numbers]
    there = np.isin(bad["failed"], (0, LOST)) & np.isin(bad["executor"], gone_numbers)
    return "lost-executor" if bool(there.any()) else "failed-work"


def _add(cost: Cost, case: Case, stage: Stage, rows: Rows, waiting: Mapping[int, int]) -> None:
    """Add what a stage lost."""
    bad = rows[~rows["good"] & ~rows["killed"]]
    cost.tasks += len(bad)
    cost.core_ms += float((bad["finish"] - bad["launch"]).sum()) / MS
    cost.waiting += len(waiting)
    cost.stages.append(stage)
    if bool((bad["failed"] == FETCH).any()):
        again = case.app.stages.get((stage.number, stage.attempt + 1))
        until = 0 if again is None else again.submitted
        first = int(bad["launch"].min()) // MS
        cost.spans.append((first, max(first, until or stage.completed)))
    else:
        ran = int(rows["launch"].min()) / MS, int(rows["finish"].max()) / MS
        cost.spans.append(later(rows, case.observed.capacity.mean(*ran), waiting))


def later(rows: Rows, cores: float, waiting: Mapping[int, int]) -> tuple[int, int]:
    """Return when a stage would have ended without failures, and when it did, Unix ms.

    rows: its attempts of tasks. cores: how many there were on average. waiting: when tasks would
    have begun, ns, by index; others would have begun when they did. If cores always had something
    to do, what failed took its share of all of them.
    """
    tried = rows[~rows["killed"]]
    order = np.lexsort((tried["launch"], tried["index"]))
    tried = tried[order]
    first = np.flatnonzero(np.diff(tried["index"], prepend=-1))
    begun = np.repeat(tried["launch"][first], np.diff(first, append=len(tried)))
    for index, start in waiting.items():
        mine = tried["index"] == index
        begun[mine] = np.minimum(begun[mine], start)
    good = tried["good"]
    end = int(tried["finish"].max())
    if not bool(good.any()):
        return end // MS, end // MS
    mended = tried["finish"][good] - (tried["launch"][good] - begun[good])
    failed = float((tried["finish"][~good] - tried["launch"][~good]).sum())
    start = int(tried["launch"].min())
    without = min(int(mended.max()), int(end - failed / cores))
    return max(start, without) // MS, end // MS


def _lost(cause: str, app: Application, cost: Cost, length: float) -> Finding:
    share = min(1.0, cost.ms / length)
    names = [_executor_name(each) for each in cost.executors]
    one = len(names) == 1
    return _finding(
        cause,
        cost,
        share,
        f"{'Executor' if one else 'Executors'} {listed(names)} {'was' if one else 'were'} lost."
        f" In {_stages(cost)}, {_repeated(cost)}: that made the run {duration(cost.ms)}"
        f" ({percent(share)}) longer."
        f"{_replaced(app, cost.executors)}",
        _why_lost(cost.executors),
        Place(
            stage=cost.stages[0].number,
            attempt=cost.stages[0].attempt,
            execution=cost.stages[0].execution,
            executor=cost.executors[0].name if cost.executors else "",
            host=cost.executors[0].host if cost.executors else "",
        ),
    )


def _repeated(cost: Cost) -> str:
    """Say what became of tasks when executors were lost."""
    it = "it" if len(cost.executors) == 1 else "them"
    one = cost.tasks == 1
    repeated = (
        f"{counted(cost.tasks, 'task attempt')} lost {'its' if one else 'their'} work or"
        f" {'its' if one else 'their'} input with {it} and {'was' if one else 'were'} repeated"
    )
    waited_for = f"{counted(cost.waiting, 'task')} waited for a core"
    return ", and ".join([repeated] * (cost.tasks > 0) + [waited_for] * (cost.waiting > 0))


def _fetch(cause: str, app: Application, cost: Cost, length: float) -> Finding:
    del app
    share = min(1.0, cost.ms / length)
    return _finding(
        cause,
        cost,
        share,
        f"{counted(cost.tasks, 'task')} of {_stages(cost)} could not fetch shuffle files, although"
        " no executor was lost. Spark computed these files again and then repeated the stage,"
        f" which made the run {duration(cost.ms)} ({percent(share)}) longer.",
        "Look for full, failing or cleaned-up local disks (`spark.local.dir`) and for an overloaded"
        " network on the host that the error names. An external shuffle service"
        " (`spark.shuffle.service.enabled`) outlives executors; `spark.shuffle.io.maxRetries` and"
        " `spark.shuffle.io.retryWait` bridge short breaks.",
        Place(
            stage=cost.stages[0].number,
            attempt=cost.stages[0].attempt,
            execution=cost.stages[0].execution,
        ),
    )


def _failed(cause: str, app: Application, cost: Cost, length: float) -> Finding:
    share = min(1.0, cost.ms / length)
    names = sorted(app.exceptions, key=lambda name: (-app.exceptions[name], name))
    why = f" The exceptions were {listed(names, 3)}." if names else ""
    return _finding(
        cause,
        cost,
        share,
        f"{counted(cost.tasks, 'attempt')} of tasks of {_stages(cost)} failed and"
        f" {'was' if cost.tasks == 1 else 'were'} made again. {'It' if cost.tasks == 1 else 'Together they'}"
        f" had run for {duration(cost.core_ms)}, and the run took {duration(cost.ms)} ({percent(share)})"
        f" longer.{why}",
        "The page of the stage in the Spark UI has the stack traces: mend what fails. If some hosts"
        " fail more than others, set `spark.excludeOnFailure.enabled=true`.",
        Place(
            stage=cost.stages[0].number,
            attempt=cost.stages[0].attempt,
            execution=cost.stages[0].execution,
        ),
    )


_FINDINGS = {"lost-executor": _lost, "fetch-failure": _fetch, "failed-work": _failed}


def _finding(cause: str, cost: Cost, share: float, text: str, advice: str, place: Place) -> Finding:
    return Finding(
        cause=cause,
        text=text,
        advice=advice,
        gain=share,
        seconds=cost.ms / 1_000,
        certainty=Certainty.LIKELY,
        place=place,
        evidence=(
            Evidence(name="attempts that failed or were lost", value=cost.tasks),
            Evidence(name="work that was lost", value=cost.core_ms / 1_000, unit="core seconds"),
        ),
    )


def _harmless(lost: list[Executor], cost: Cost) -> Finding:
    """Return the finding about executors whose loss cost nothing that can be seen."""
    one = len(lost) == 1
    return Finding(
        cause="lost-executor",
        text=f"{'Executor' if one else 'Executors'} {listed([_executor_name(e) for e in lost])}"
        f" {'was' if one else 'were'} lost, which hardly made the run longer.",
        advice=_why_lost(lost),
        gain=None,
        certainty=Certainty.CERTAIN,
        place=Place(executor=lost[0].name, host=lost[0].host),
        evidence=(Evidence(name="attempts that were lost", value=cost.tasks),),
    )


def _executor_name(executor: Executor) -> str:
    about = [*([f"on {executor.host}"] if executor.host else [])]
    reason = " ".join(executor.reason.split())[:80]
    if reason:
        about.append(f'"{reason}"')
    return f"{executor.name} ({', '.join(about)})" if about else executor.name


def _stages(cost: Cost) -> str:
    numbers = sorted({stage.number for stage in cost.stages})
    return f"stage{'' if len(numbers) == 1 else 's'} {listed([str(n) for n in numbers], 6)}"


def _replaced(app: Application, lost: list[Executor]) -> str:
    """Say when the first of lost executors was replaced."""
    if not lost:
        return ""
    gone = lost[0].removed
    later_ones = [each.added for each in app.executors.values() if each.added >= gone]
    if not later_ones:
        return " None came in its place."
    return f" Another executor registered {duration(min(later_ones) - gone)} after the first loss."


def _why_lost(lost: list[Executor]) -> str:
    reasons = " ".join(each.reason for each in lost).lower()
    if any(word in reasons for word in ("137", "143", "memory", "oom")):
        return (
            "The reason looks like memory, or a kill from outside: raise"
            " `spark.executor.memoryOverhead` or `spark.executor.memory`, or use more and smaller"
            " partitions, and look at the log of the host."
        )
    if "heartbeat" in reasons or "timed out" in reasons:
        return (
            "The executor did not answer: long garbage collection or an overloaded host does that."
            " Raise `spark.executor.memory`, or `spark.network.timeout` if it would have recovered."
        )
    if any(word in reasons for word in ("decommission", "preempt", "spot")):
        return (
            "The cluster took the executor away: set `spark.decommission.enabled=true` and"
            " `spark.storage.decommission.shuffleBlocks.enabled=true`, so that it hands over its"
            " blocks, or use hosts that stay."
        )
    return (
        "The log of the executor and of its host say why it ended. An external shuffle service"
        " (`spark.shuffle.service.enabled`) keeps the output of its tasks."
    )
