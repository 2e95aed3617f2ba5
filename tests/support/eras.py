"""Names of eras for tests that hold migrations in their hands; a running job names its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rechannel.kernels.protocol.migrate import Chain, Migration, fingerprint


def chains(migrations: Sequence[Migration]) -> tuple[str, Mapping[str, Chain]]:
    """All eras of an operator, from its migrations in the order in which they came (at least one).

    Returns the fingerprint of the last era and, for that of every earlier one, the way to the last.
    """
    first = migrations[0]
    eras = [fingerprint(first.key_schema, first.from_schema)]
    for number, migration in enumerate(migrations, start=1):
        name = fingerprint(migration.key_schema, migration.to_schema)
        eras.append(f"{name}.{number}" if name in eras else name)
    ways = {era: tuple(migrations[i:]) for i, era in enumerate(eras[:-1])}
    return eras[-1], ways
