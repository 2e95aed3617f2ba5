"""`rechannel bench`: run a benchmark of a source checkout."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import typer

import rechannel
from rechannel.errors import SetUpError

_PACKAGE = "benchmarks"


def bench(context: typer.Context) -> None:
    """Run a benchmark, as in `bench NAME [--quick]`.

    Further options: --json FILE, --out DIR. Without a name it lists them. Benchmarks come with the
    source, not with the package.
    """
    checkout = find_checkout(Path.cwd(), Path(rechannel.__file__).resolve().parents[2])
    sys.path.insert(0, str(checkout))
    try:
        benchmarks = import_module(_PACKAGE)
        code = benchmarks.main(context.args)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith((_PACKAGE, "rechannel")):
            raise
        msg = f"benchmarks need the package {error.name!r}: pip install 'rechannel[bench]'"
        raise SetUpError(msg) from error
    raise typer.Exit(code)


def find_checkout(*places: Path) -> Path:
    """The first place with the benchmarks of Rechannel. Raises SetUpError if there is none."""
    for place in places:
        if (place / _PACKAGE / "registry.py").is_file() and (place / "src/rechannel").is_dir():
            return place
    msg = (
        "the benchmarks are not part of the installed package: clone the source, `make environment`"
        " in it, and run `rechannel bench` there"
    )
    raise SetUpError(msg)
