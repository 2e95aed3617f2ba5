"""Changes of what is computed. Each function is a sub-command, and returns the change as JSON."""

from __future__ import annotations

from typing import Annotated

import typer

from rechannel.cli.remote.workload import Json, Operator


def assign_logic(
    operator: Operator,
    function: Annotated[
        str, typer.Argument(metavar="MODULE:NAME", help="That the job can import.")
    ],
) -> Json:
    """Run another function, which the job loads by its import path."""
    return {"kind": "assign_logic", "operator": operator, "function": function}
