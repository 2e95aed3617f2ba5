"""`rechannel-python`: Python for the driver of an application, with a report when the application has ended.

    spark-submit --conf spark.pyspark.driver.python=rechannel-python --conf spark.rechannel.report=why.html app.py

`spark-submit` starts this in place of Python, once its JVM runs. The JVM's system properties are Spark's settings, and
the session that the program makes takes them over. So a short-lived process adds what the event log needs to them,
through the gateway that `spark-submit` has opened for the program. Then Python runs the program, in a process of its
own, as it would without this. Workers use another setting and never start this.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from uuid import uuid4

from rechannel.cli.screen import complain, say
from rechannel.errors import RechannelError
from rechannel.profiling.spark.launch import DIRECTORY, ENABLED, Launch, logging

REPORT = "spark.rechannel.report"
"""The setting that names the page to write; without it the report is printed. `spark-submit` mixes standard error of
the driver's Python into standard output, so nothing is printed if there is a page."""
PYTHON = "RECHANNEL_PYTHON"
"""The environment variable with the Python that runs the program; by default the one of this package."""
ROWS = 10
"""Rows per table of a report that is printed."""
_GATEWAY = "PYSPARK_GATEWAY_PORT"
_PROPERTIES = """
import json, os, sys
from py4j.java_gateway import GatewayParameters, JavaGateway
to = GatewayParameters(port=int(os.environ["PYSPARK_GATEWAY_PORT"]), auth_token=os.environ["PYSPARK_GATEWAY_SECRET"])
system = JavaGateway(gateway_parameters=to).jvm.java.lang.System
names, values = json.loads(sys.argv[1])
for name, value in values.items():
    system.setProperty(name, value)
print(json.dumps({name: system.getProperty(name) for name in names}), flush=True)
os._exit(0)
"""
"""Sets system properties of the JVM and prints others. It runs in a process of its own."""


def main() -> None:
    """Run the program that the arguments name, and end with its exit code."""
    python = os.environ.get(PYTHON, sys.executable)
    command = (python, *sys.argv[1:])
    if len(command) == 1 or _GATEWAY not in os.environ:
        os.execv(python, command)  # A shell, or no spark-submit: Python, and nothing else.
    from rechannel.cli.profiles.running import run_and_report

    settings: dict[str, str] = {}

    def plan(own: Path) -> Launch:
        mark, where = uuid4().hex, own.as_uri()
        try:
            settings.update(_properties([ENABLED, DIRECTORY, REPORT], {}))
            where, more = logging(settings, own=own, mark=mark)
            _properties([], more)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            say(f"no report: Spark's settings could not be read: {error}")
        return Launch(command=command, environment=dict(os.environ), mark=mark, where=where)

    def report(log: Path) -> int:
        _show(log, settings.get(REPORT))
        return 0

    try:
        code = run_and_report(plan, report)
    except RechannelError as error:
        complain(error)
        code = 2
    sys.exit(code)


def _properties(names: list[str], values: dict[str, str]) -> dict[str, str]:
    """Set some properties of the JVM, and return others, as far as they are set."""
    words = [sys.executable, "-c", _PROPERTIES, json.dumps([names, values])]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    found: dict[str, str | None] = json.loads(done.stdout)
    return {name: value for name, value in found.items() if value is not None}


def _show(log: Path, page: str | None) -> None:
    from rechannel.profiling.api import profile

    made = profile(log)
    if page is not None:
        from rechannel.profiling.report.page import write_page

        write_page(made, page)
        return
    from rechannel.cli.profiles.shown import show_analysis

    with redirect_stdout(sys.stderr):
        show_analysis(made, ROWS, as_json=False)
