"""A program that `spark-submit` started: its settings are those that this was given, and come first.

`spark-submit` starts the JVM, puts its options into the JVM's system properties, and starts Python with the address of
the JVM in its environment. A session that Python makes would override them silently; here they are kept, and what
contradicts them is refused.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from rechannel.errors import SessionError

GATEWAY = "PYSPARK_GATEWAY_PORT"
"""What `spark-submit` puts into the environment of the Python that it starts."""
MASTER = "spark.master"
APP_NAME = "spark.app.name"
TOO_LATE = (
    "spark.driver.memory",
    "spark.driver.memoryOverhead",
    "spark.driver.extraClassPath",
    "spark.driver.extraJavaOptions",
    "spark.driver.extraLibraryPath",
    "spark.submit.deployMode",
)
"""What has no effect any more once the JVM of the driver runs."""


def is_submitted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether `spark-submit` started this process."""
    return GATEWAY in environment


def given_settings() -> dict[str, str]:
    """Return what `spark-submit` was given, by options or by its defaults file."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def beside_given(
    defaults: Mapping[str, str],
    asked: Mapping[str, str],
    given: Mapping[str, str],
    program: str | None = None,
) -> dict[str, str]:
    """Return the settings that a session sets beside those that `spark-submit` was given. Pure.

    defaults: give way. asked: what the program asks for by name. program: the file that `spark-submit`
    runs, after which it names an application that was given no name; None = `sys.argv[0]`.
    Raises SessionError where the program and `spark-submit` contradict each other.
    """
    unnamed = Path(program or sys.argv[0]).name
    kept = {k: v for k, v in given.items() if not (k == APP_NAME and v == unnamed)}
    wrong = [
        f"{key} is {kept[key]!r} there and {value!r} in the program"
        for key, value in asked.items()
        if kept.get(key, value) != value
    ]
    wrong += [
        f"{key}={asked[key]!r} comes too late, since the JVM of the driver runs already"
        for key in TOO_LATE
        if key in asked.keys() - kept.keys()
    ]
    if wrong:
        msg = (
            f"spark-submit and rc.session contradict each other: {'; '.join(wrong)}. Give it to spark-submit and take"
            " it out of rc.session, which keeps what spark-submit is given"
        )
        raise SessionError(msg)
    return {key: value for key, value in {**defaults, **asked}.items() if key not in kept}
