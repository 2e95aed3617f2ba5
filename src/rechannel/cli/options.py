"""Arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

Target = Annotated[
    str, typer.Argument(metavar="FILE[:name]", help="A Python file, and the variable of the job.")
]
StateTarget = Annotated[
    str, typer.Argument(metavar="STATE_DIR", help="State directory of the job, or its URL.")
]
AllowOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODULE",
        help="A module whose functions the state directory may name. May be repeated.",
    ),
]
InProcessOption = Annotated[
    bool, typer.Option(help="Run in this process without Spark; only operators on Arrow data.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
