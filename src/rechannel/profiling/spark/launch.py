"""How an application of Spark is run so that its event log is found afterwards. Pure, but for files that it reads.

- Every application gets a mark, `spark.rechannel.run`, which is in the properties at the beginning of its log.
- If the user's settings switch the event log on, it stays as they want it, and the log is looked for in its directory.
- Otherwise the log is switched on, in a directory of the run's own.
- `spark-submit` and the shells get settings as options before the application; any other command (`python app.py`) gets
  them in PYSPARK_SUBMIT_ARGS, which PySpark passes on to the `spark-submit` that it starts.
- Options count before a file of properties, and that before `conf/spark-defaults.conf`, as in Spark.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from shutil import which
from urllib.parse import unquote, urlsplit

from rechannel.errors import TraceError
from rechannel.profiling.spark.event_files import log_files, log_lines

MARK = "spark.rechannel.run"
"""The property that marks a run."""
ENABLED, DIRECTORY = "spark.eventLog.enabled", "spark.eventLog.dir"
DEFAULT_DIRECTORY = "file:///tmp/spark-events"
"""Where Spark writes event logs by default."""
SUBMITTING = ("spark-submit", "spark-sql", "spark-shell", "pyspark", "sparkR")
"""Programs that take the options of spark-submit."""
SWITCHES = frozenset(
    (
        "-h",
        "--help",
        "--supervise",
        "--usage-error",
        "-v",
        "--verbose",
        "--version",
        "--load-spark-defaults",
    )
)
"""Options of spark-submit without a value."""
VALUED = frozenset(
    (
        *("-c", "--conf", "--archives", "--class", "--deploy-mode", "--driver-class-path"),
        *("--driver-cores", "--driver-java-options", "--driver-library-path", "--driver-memory"),
        *("--exclude-packages", "--executor-cores", "--executor-memory", "--files", "--jars"),
        *("--keytab", "--kill", "--master", "--name", "--num-executors", "--packages"),
        *("--principal", "--properties-file", "--proxy-user", "--py-files", "--queue"),
        *("--remote", "--repositories", "--status", "--total-executor-cores"),
    )
)
"""Options of spark-submit with a value."""
PROPERTIES = 100
"""Lines at the beginning of a log among which its properties are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A command to run, and where its event log will be."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    mark: str
    where: str
    """The directory of the log, as the settings name it."""

    @property
    def directory(self) -> Path | None:
        """The directory, if it is on this machine."""
        found = urlsplit(self.where)
        if found.scheme not in {"", "file"} or found.netloc not in {"", "localhost"}:
            return None
        return Path(unquote(found.path) if found.scheme else self.where)


def launch(
    command: Sequence[str],
    environment: Mapping[str, str],
    defaults: Mapping[str, str],
    *,
    own: Path,
    mark: str,
) -> Launch:
    """Return a command with the settings that it needs. defaults: the user's, from files. own: an empty directory."""
    options, application = split(_given(command, environment))
    where, more = logging({**defaults, **dict(_settings(options))}, own=own, mark=mark)
    added = [word for name, value in more.items() for word in ("--conf", f"{name}={value}")]
    words = (*options, *added, *application)
    if _submits(command):
        return Launch(command=(command[0], *words), environment=environment, mark=mark, where=where)
    passed = {**environment, "PYSPARK_SUBMIT_ARGS": shlex.join(words)}
    return Launch(command=tuple(command), environment=passed, mark=mark, where=where)


def logging(settings: Mapping[str, str], *, own: Path, mark: str) -> tuple[str, dict[str, str]]:
    """Return where the log of an application will be, and the settings that it needs for that.

    settings: the user's. own: where the log goes if they do not switch it on.
    """
    if settings.get(ENABLED, "false").strip().lower() == "true":
        return settings.get(DIRECTORY, DEFAULT_DIRECTORY), {MARK: mark}
    return own.as_uri(), {ENABLED: "true", DIRECTORY: own.as_uri(), MARK: mark}


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the arguments of spark-submit into its options and the rest: the application with its arguments. An option
    that spark-submit does not know, such as `-e` of spark-sql, belongs to the rest.
    """
    at = 0
    while at < len(words):
        name, equals, _ = words[at].partition("=")
        if words[at] in SWITCHES or (equals and name in VALUED):
            at += 1
        elif words[at] in VALUED:
            at += 2
        else:
            break
    return list(words[:at]), list(words[at:])


def properties_file(command: Sequence[str], environment: Mapping[str, str]) -> Path | None:
    """Return the file with the user's properties; None if there is none."""
    options, _ = split(_given(command, environment))
    named = [value for name, value in _values(options) if name == "--properties-file"]
    if named:
        return Path(named[-1])
    places = [environment.get("SPARK_CONF_DIR"), _under(environment.get("SPARK_HOME"), "conf")]
    program = which(command[0], path=environment.get("PATH"))
    if program is not None:
        places.append(str(Path(program).resolve().parent.parent / "conf"))
    installed = find_spec("pyspark")
    if installed is not None and installed.origin is not None:
        places.append(str(Path(installed.origin).parent / "conf"))
    files = [Path(place) / "spark-defaults.conf" for place in places if place]
    return next((file for file in files if file.is_file()), None)


def properties(text: str) -> dict[str, str]:
    """Read a file of Java properties, as Spark's are: a name, and its value after spaces, `=` or `:`."""
    pairs = (
        re.match(r"\s*([^\s=:#!][^\s=:]*)\s*[=:\s]\s*(.*?)\s*$", line) for line in text.splitlines()
    )
    return {found[1]: found[2] for found in pairs if found is not None}


def marked_logs(directory: Path, mark: str) -> list[Path]:
    """Return the event logs of a directory that have a mark, the largest first."""
    if not directory.is_dir():
        return []
    logs = [(_bytes(place), place) for place in directory.iterdir() if _has(place, mark)]
    return [place for _, place in sorted(logs, reverse=True)]


def _has(place: Path, mark: str) -> bool:
    try:
        if not place.is_file() and not place.is_dir():
            # A pipe without a writer would be waited for.
            return False
        return any(mark.encode() in line for line in islice(log_lines(place), PROPERTIES))
    except (TraceError, OSError):
        return False


def _bytes(place: Path) -> int:
    try:
        return sum(file.stat().st_size for file in log_files(place))
    except (TraceError, OSError):
        return 0


def _submits(command: Sequence[str]) -> bool:
    return Path(command[0]).name.removesuffix(".cmd") in SUBMITTING


def _given(command: Sequence[str], environment: Mapping[str, str]) -> Sequence[str]:
    """Return the arguments of spark-submit: those of the command, or those that PySpark passes on."""
    if _submits(command):
        return command[1:]
    return shlex.split(environment.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))


def _values(options: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Yield options with their values, in both forms."""
    at = 0
    while at < len(options):
        name, equals, value = options[at].partition("=")
        if options[at] in SWITCHES:
            at += 1
        elif equals and name in VALUED:
            yield name, value
            at += 1
        else:
            yield options[at], options[at + 1] if at + 1 < len(options) else ""
            at += 2


def _settings(options: Sequence[str]) -> Iterable[tuple[str, str]]:
    for name, value in _values(options):
        if name in {"--conf", "-c"}:
            setting, _, to = value.partition("=")
            yield setting.strip(), to.strip()


def _under(directory: str | None, name: str) -> str | None:
    return os.path.join(directory, name) if directory else None  # noqa: PTH118 - may be relative
