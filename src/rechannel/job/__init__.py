"""Jobs that users declare and start, one file per thing that can be done with one."""

from __future__ import annotations

from rechannel.job.job import Job
from rechannel.job_seams import InProcess

__all__ = ["InProcess", "Job"]
