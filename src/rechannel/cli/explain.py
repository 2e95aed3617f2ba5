"""`rechannel explain`: how a job would be executed. Nothing runs."""

from __future__ import annotations

from rechannel.cli.options import InProcessOption, Target
from rechannel.cli.screen import show


def explain(target: Target, in_process: InProcessOption = False) -> None:
    """Show how the job of a Python file is executed: stages, tasks, state, sinks, the order of a timestep.

    Nothing runs, and the state directory is not opened: a running job shows with job.explain() what
    changes have made of its plan.
    """
    from rechannel.cli.program import find_job, load, split_target
    from rechannel.job import InProcess

    file, name = split_target(target)
    job = find_job(load(file), name)
    show(str(job.explain(in_process=InProcess() if in_process else None)))
