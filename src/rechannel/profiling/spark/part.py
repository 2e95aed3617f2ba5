"""A part of an application: what lies between two times, as if there were nothing else."""

from __future__ import annotations

from dataclasses import replace

from rechannel.profiling.model.trace import MS
from rechannel.profiling.spark.application import Application
from rechannel.profiling.spark.rows import TaskRows


def part_of(app: Application, start: int, end: int) -> Application:
    """Return the jobs, executions, batches and tasks that lie within [start, end], ns.

    What began before, or was not over, is left out. If nothing is, the result is the application itself.
    """
    first, last = start // MS, -(-end // MS)
    if first <= app.start and last >= app.end:
        return app

    def inside(begun: int, over: int) -> bool:
        return first <= begun and (over or app.end) <= last

    return replace(
        app,
        start=max(first, app.start),
        end=min(last, app.end),
        jobs={n: job for n, job in app.jobs.items() if inside(job.start, job.end)},
        stages={
            key: stage
            for key, stage in app.stages.items()
            if not stage.submitted or inside(stage.submitted, stage.completed)
        },
        executions={n: run for n, run in app.executions.items() if inside(run.start, run.end)},
        batches=[batch for batch in app.batches if inside(batch.start, batch.end)],
        # When they were thrown is not known.
        exceptions={},
        tasks=_tasks(app.tasks, first * MS, last * MS),
    )


def _tasks(tasks: TaskRows, start: int, end: int) -> TaskRows:
    """Return the tasks within [start, end], ns, and leave the given ones unchanged."""
    part = TaskRows()
    part.executors, part.lost = tasks.executors, tasks.lost
    part.blocks = tasks.close()
    part.keep(start, end)
    return part
