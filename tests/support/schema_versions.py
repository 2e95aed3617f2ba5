"""Names of eras for tests that hold migrations in their hands; a running job names its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rechannel.kernels.protocol.migrate import Chain, Migration, fingerprint


def chains(migrations: Sequence[Migration]) -> tuple[str, Mapping[str, Chain]]:
    """All eras of an operator, from its migrations in the order in which they came (at least one).

    Returns the fingerprint of the last era and, for that of every earlier one, the way to the last.
    """
    first = migrations[0]
    schema_versions = [fingerprint(first.key_schema, first.from_schema)]
    for number, migration in enumerate(migrations, start=1):
        name = fingerprint(migration.key_schema, migration.to_schema)
        schema_versions.append(f"{name}.{number}" if name in schema_versions else name)
    ways = {
        schema_version: tuple(migrations[i:])
        for i, schema_version in enumerate(schema_versions[:-1])
    }
    return schema_versions[-1], ways
