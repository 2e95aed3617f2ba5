"""Which settings a running job can change, and by what."""

from __future__ import annotations

NEXT_START = "no: from the next start on"
"""Said of settings that are not below."""

ONE_START = "no: holds for this start"
CALL = "no: holds for this call"

LIVE = {
    "Settings.tasks": "`rc.changes.rescale`, by operator",
    "Settings.bins": "`rc.changes.split`, `rc.changes.merge`, by operator",
    "Settings.interval_ms": "`rc.changes.set_interval`",
    "Settings.in_flight": "`rc.changes.set_in_flight`",
    "Settings.timestep_bytes": "`rc.changes.set_bound`, by source",
    "Job.name": "no",
    "Job.flows": "`job.deploy`; `rc.changes.add`, `rc.changes.remove`, `rc.changes.change_dataflow`",
    "Job.state": "no",
    "Job.settings": "see [rc.Settings](#rcsettings)",
    "Job.migrate": "`job.deploy`",
    "Job.renamed": "no: by an upgrade at a start",
    "Job.controllers": "`job.control`, `handle.remove`",
    "Job.allow": "for a server: `job.serve(allow=...)`",
    "Job.start": ONE_START,
    "Job.stand_by": ONE_START,
    "session": "no: Spark's session has them until it ends",
    "RunningJob.serve": "another server: `server.close()`, `job.serve(...)`",
    "RunningJob.stop": CALL,
    "RunningJob.reconfigure": CALL,
    "RunningJob.deploy": CALL,
    "at_most": "`job.deploy`, with the new bound in the program",
    "control.install": "remove the controller, and install it again",
    "testing.Harness": "no: a harness has them until it ends",
    "testing.scaling.Steering": "remove the controller, and install it again",
}
"""By "NAME.SETTING", or by NAME for all settings of it: how, or why not."""
