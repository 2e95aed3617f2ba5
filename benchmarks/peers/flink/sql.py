"""Some statements of SQL as one Flink job: ``python sql.py PARAMETERS OUT`` in Flink's own environment.

PARAMETERS is a JSON object; the id of the job that was submitted is written to OUT. Python only submits: every operator
runs in the JVM. Nothing of this repository can be imported here.
"""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment


def main(parameters: dict[str, Any], out: Path) -> None:
    """Make the tables, submit the last statement."""
    settings = Configuration()
    for name, value in parameters["settings"].items():
        settings.set_string(name, value)
    # Not `get_execution_environment`: outside `flink run` that would be a cluster of its own.
    java = get_gateway().jvm.org.apache.flink.streaming.api.environment
    environment = StreamExecutionEnvironment(
        java.StreamExecutionEnvironment(settings._j_configuration)
    )
    tables = StreamTableEnvironment.create(environment)
    *before, last = parameters["statements"]
    for statement in before:
        tables.execute_sql(statement)
    started = tables.execute_sql(last)
    out.write_text(str(started.get_job_client().get_job_id()), encoding="utf-8")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), Path(sys.argv[2]))
