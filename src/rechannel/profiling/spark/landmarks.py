"""Jobs, stages, executions and batches of an application as marks; its hosts, and which operator reads from which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rechannel.profiling.model.landmarks import Landmarks, Mark, MarkKind
from rechannel.profiling.model.trace import MS
from rechannel.profiling.spark.application import Application, Stage


def spark_landmarks(app: Application) -> Landmarks:
    """Return the landmarks of an application. What has not ended lasts until the end of the log."""
    return Landmarks(
        marks=[mark for mark in _marks(app) if mark.end > mark.start > 0],
        hosts={f"executor {each.name}": each.host for each in app.executors.values() if each.host},
        links=list(dict.fromkeys(_links(app.stages.values()))),
    )


def _marks(app: Application) -> Iterator[Mark]:
    for batch in app.batches:
        yield _mark(MarkKind.BATCH, batch.number, batch.start, batch.end, batch.query)
    for run in app.executions.values():
        end = run.end or app.end
        yield _mark(MarkKind.EXECUTION, run.number, run.start, end, run.description)
    for job in app.jobs.values():
        end = job.end or app.end
        yield _mark(MarkKind.JOB, job.number, job.start, end, job.description or job.site)
    for stage in app.stages.values():
        end = stage.completed or app.end
        yield _mark(MarkKind.STAGE, stage.number, stage.submitted, end, stage.name, stage.attempt)


def _mark(what: MarkKind, number: int, start: int, end: int, name: str, attempt: int = 0) -> Mark:
    text = " ".join(name.split())
    return Mark(
        what=what, number=number, start=start * MS, end=end * MS, name=text, attempt=attempt
    )


def _links(stages: Iterable[Stage]) -> Iterator[tuple[str, str]]:
    """Yield pairs of operators. A parent that was skipped stands for the stage of the same RDD that ran."""
    known = {stage.number: stage for stage in stages}
    ran = {stage.rdd: stage for stage in known.values() if stage.submitted and stage.rdd >= 0}
    for stage in known.values():
        if not stage.submitted:
            continue
        for number in stage.parents:
            parent = known.get(number)
            if parent is not None and not parent.submitted:
                parent = ran.get(parent.rdd)
            if parent is not None:
                yield parent.name, stage.name
