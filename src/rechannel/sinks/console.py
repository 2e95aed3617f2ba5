"""The first rows of every timestep on standard output, for a person who watches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from rechannel.sinks.batch import Batch
from rechannel.sinks.writer import Rows, Staged, UnsharedWriter

if TYPE_CHECKING:
    from rich.console import Console


@dataclass
class ConsoleWriter(UnsharedWriter):
    """Prints a table for every timestep that has rows.

    If the driver dies, a timestep may be printed twice or not at all: this is a view, not a
    record.
    """

    name: str
    rows: int
    """Maximum number of rows to print."""
    console: Console
    durable: bool = False
    _staged: dict[int, pa.Table] = field(default_factory=dict)

    def stage(self, rows: Rows, batch: Batch) -> Staged:
        """Hold the first rows, and one more to know whether there are more."""
        self._staged[batch.timestep] = rows.head(self.rows + 1)
        return {}

    def publish(self, staged: Staged, batch: Batch) -> None:
        """Print the rows."""
        del staged
        held = self._staged.pop(batch.timestep, None)
        if held is not None and held.num_rows:
            self._print(held, batch.timestep)

    def _print(self, held: pa.Table, timestep: int) -> None:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        shown = f"{min(held.num_rows, self.rows)} {'row' if held.num_rows == 1 else 'rows'}"
        count = f"first {shown}" if held.num_rows > self.rows else shown
        table = Table(box=box.SIMPLE)
        for field_ in held.schema:
            right = pa.types.is_integer(field_.type) or pa.types.is_floating(field_.type)
            table.add_column(Text(field_.name), justify="right" if right else "left")
        for row in held.slice(0, self.rows).to_pylist():
            table.add_row(*(Text("" if v is None else str(v)) for v in row.values()))
        self.console.print(Text(f"{self.name} · timestep {timestep} · {count}", style="bold"))
        self.console.print(table)


def console_writer(name: str, rows: int) -> ConsoleWriter:
    """Return a writer to standard output. rows: the most that it prints."""
    from rich.console import Console

    return ConsoleWriter(name, rows, Console())
