"""From a Python file to the job in it."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from rechannel.engine.spark.session.submitted import is_submitted
from rechannel.errors import DataflowError, RechannelError, RefusedError
from rechannel.job import Job
from rechannel.running import RunningJob


def split_target(target: str) -> tuple[Path, str | None]:
    """Split `FILE` or `FILE:name` into the file and the name. Raises RefusedError if there is no such file."""
    path, colon, name = target.rpartition(":")
    if colon and name.isidentifier() and not Path(target).exists():
        file, wanted = Path(path), name
    else:
        file, wanted = Path(target), None
    if not file.is_file():
        msg = f"there is no file {file}; give a Python file that makes a job, as FILE or FILE:name"
        raise RefusedError(msg)
    return file, wanted


def load(file: Path) -> ModuleType:
    """Import a Python file under a name that no other module has, its directory first on the path.

    Functions in it are sent to workers by value: no worker has to find the file.
    Raises DataflowError with the traceback of what the file raised.
    """
    file = file.resolve()
    name = "rechannel_program_" + re.sub(r"\W", "_", file.stem)
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        msg = f"{file} is not a Python file: its name must end in .py"
        raise RefusedError(msg)
    _put_on_path(str(file.parent))
    module = module_from_spec(spec)
    sys.modules[name] = module
    _send_by_value(module)
    try:
        spec.loader.exec_module(module)
    except RechannelError:
        raise
    except Exception as error:
        msg = f"{file} cannot be imported:\n{_own_traceback(error, file)}"
        raise DataflowError(msg) from error
    return module


def find_job(module: ModuleType, name: str | None) -> Job:
    """The one job of a module, or the one with that name. Raises DataflowError."""
    held = {key: value for key, value in vars(module).items() if isinstance(value, Job)}
    if name is not None:
        return _named(module, name, held)
    if len({id(job) for job in held.values()}) == 1:
        return next(iter(held.values()))
    if held:
        names = ", ".join(sorted(held))
        msg = f"{module.__file__} makes several jobs ({names}): choose one with FILE:name"
        raise DataflowError(msg)
    _refuse_running(module, vars(module))
    msg = f"{module.__file__} makes no job: assign one to a variable, such as job = rc.Job(...)"
    raise DataflowError(msg)


def _named(module: ModuleType, name: str, held: Mapping[str, Job]) -> Job:
    if name in held:
        return held[name]
    found = vars(module).get(name)
    _refuse_running(module, {name: found})
    what = (
        f"{name!r} is {type(found).__name__}" if name in vars(module) else f"there is no {name!r}"
    )
    msg = f"{module.__file__}: {what}, not a job; there are: {', '.join(sorted(held)) or 'none'}"
    raise DataflowError(msg)


def _refuse_running(module: ModuleType, names: Mapping[str, object]) -> None:
    for name, value in names.items():
        if isinstance(value, RunningJob):
            value.stop()
            msg = (
                f"{module.__file__} starts its job {name!r} itself: leave .start() to this command,"
                " or put it under `if __name__ == '__main__':`"
            )
            raise DataflowError(msg)


def _put_on_path(directory: str) -> None:
    """Let the file import its neighbours, here and in the workers of a local session."""
    if directory not in sys.path:
        sys.path.insert(0, directory)
    paths = [directory, *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    if not is_submitted():  # what spark-submit was given decides
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _send_by_value(module: ModuleType) -> None:
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _own_traceback(error: Exception, file: Path) -> str:
    """The traceback, beginning in the user's file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != str(file):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace)).rstrip()
