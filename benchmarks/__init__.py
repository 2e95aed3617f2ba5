"""Benchmarks: Rechannel beside the fastest correct form of the same work in plain Spark.

``python -m benchmarks NAME [--quick] [--json FILE] [--out DIR]`` runs one of them;
``python -m benchmarks`` lists them. ``README.md`` says how each figure is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """Run the command line `argv` (without the program's name) and return its exit code."""
    # Spark's Python workers import this package for the clock-driven source; they must not pay for
    # the command line, its tables and its pictures.
    from benchmarks.command import main as run

    return run(argv)
