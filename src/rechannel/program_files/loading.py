"""From a Python file to a module, and to the job in it."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from rechannel.engine.spark.session.submitted import is_submitted
from rechannel.errors import DataflowError, RechannelError, RefusedError
from rechannel.running import RunningJob

J = TypeVar("J")

STOP_SECONDS = 60.0
"""How long a job that a file has started itself may take to stop."""
PREFIX = "rechannel_program_"
"""Names of the modules that programs are begin with it."""


def load(file: Path) -> ModuleType:
    """Import a Python file under a name that no other module has, its directory first on the path.

    Functions in it are sent to workers by value: no worker has to find the file.
    Raises DataflowError with the traceback of what the file raised.
    """
    file = file.resolve()
    module = module_of(file)
    put_on_path(str(file.parent))
    _put_on_path_of_workers(str(file.parent))
    run(module, file, file.read_bytes())
    return module


def module_of(file: Path) -> ModuleType:
    """Return the module that a file is, with nothing in it yet. Raises RefusedError."""
    name = PREFIX + re.sub(r"\W", "_", file.stem)
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        msg = f"{file} is not a Python file: its name must end in .py"
        raise RefusedError(msg)
    return module_from_spec(spec)


def run(module: ModuleType, file: Path, data: bytes) -> None:
    """Run what a file holds as its module. Raises DataflowError with the traceback of what it raised."""
    sys.modules[module.__name__] = module
    send_by_value(module)
    try:
        exec(compile(data, str(file), "exec", dont_inherit=True), module.__dict__)
    except RechannelError:
        raise
    except Exception as error:
        msg = f"{file} cannot be imported:\n{_own_traceback(error, file)}"
        raise DataflowError(msg) from error


def find_job(module: ModuleType, name: str | None, kind: type[J]) -> J:
    """The one job of a module, or the one with that name. kind: the class of jobs. Raises DataflowError."""
    _refuse_running(module, vars(module))
    held = {key: value for key, value in vars(module).items() if isinstance(value, kind)}
    if name is not None:
        return _named(module, name, held)
    if len({id(job) for job in held.values()}) == 1:
        return next(iter(held.values()))
    if held:
        names = ", ".join(sorted(held))
        msg = f"{module.__file__} makes several jobs ({names}): choose one with FILE:name"
        raise DataflowError(msg)
    msg = f"{module.__file__} makes no job: assign one to a variable, such as job = rc.Job(...)"
    raise DataflowError(msg)


def put_on_path(directory: str) -> None:
    """Let a file import its neighbours."""
    if directory not in sys.path:
        sys.path.insert(0, directory)


def send_by_value(module: ModuleType) -> bool:
    """Let functions of a module travel to workers with their code; return whether they did not do so before."""
    from pyspark import cloudpickle

    if module.__name__ in cloudpickle.list_registry_pickle_by_value():  # type: ignore[no-untyped-call]
        return False
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return True


def send_by_name(module: ModuleType) -> None:
    """Undo `send_by_value`."""
    from pyspark import cloudpickle

    cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _named(module: ModuleType, name: str, held: Mapping[str, J]) -> J:
    if name in held:
        return held[name]
    found = vars(module).get(name)
    what = (
        f"{name!r} is {type(found).__name__}" if name in vars(module) else f"there is no {name!r}"
    )
    msg = f"{module.__file__}: {what}, not a job; there are: {', '.join(sorted(held)) or 'none'}"
    raise DataflowError(msg)


def _refuse_running(module: ModuleType, names: Mapping[str, object]) -> None:
    for name, value in names.items():
        if isinstance(value, RunningJob):
            # Whether it stops in time or fails, this command ends.
            with suppress(RechannelError):
                value.stop(STOP_SECONDS)
            msg = (
                f"{module.__file__} starts its job {name!r} itself: leave .start() to this command,"
                " or put it under `if __name__ == '__main__':`"
            )
            raise DataflowError(msg)


def _put_on_path_of_workers(directory: str) -> None:
    """Let the workers of a local session import the neighbours of the file, too."""
    paths = [directory, *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    if not is_submitted():  # what spark-submit was given decides
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _own_traceback(error: Exception, file: Path) -> str:
    """The traceback, beginning in the user's file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != str(file):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace)).rstrip()
