"""What converts state back to the columns it had before a change, or why nothing does.

The change's own migration tells: a column that it carried over is carried back, one that it added is dropped. A column
that it gave up, computed anew or stored in another type cannot be had back from what is stored, and no column starts
empty silently: then a function of the user's is needed, `rc.changes.migrate(back=...)`.

When the user goes back is not known when the change is made, so whatever follows from that time has no way back: a
timeout that comes, goes, or gets longer on the way back.
"""

from __future__ import annotations

import pyarrow as pa

from rechannel.dataflow.evolution.description import Described
from rechannel.dataflow.evolution.migration import Migrate
from rechannel.dataflow.evolution.succession import expired_before, migration_between
from rechannel.errors import RefusedError
from rechannel.kernels.protocol.migrate import Carry, Migration

INSTEAD = "give migrate(..., back=function), which makes the old columns"


def way_back(
    old: Described, new: Described, forth: Migration, migrate: Migrate | None = None
) -> Migration:
    """Return the migration from state of the new logic to that of the old one.

    forth: the migration of the change. migrate: the user's arguments.

    Raises RefusedError with the reason, or DataflowError for a function that does not fit.
    """
    if migrate is not None and migrate.back is not None:
        back = migration_between(new, old, Migrate(using=migrate.back))
        if back is not None:
            return back
    if forth.function is not None:
        msg = f"the new columns come from a function that cannot be inverted; {INSTEAD}"
        raise RefusedError(msg)
    places = {
        step.column: place for place, step in enumerate(forth.steps) if isinstance(step, Carry)
    }
    for place, field in enumerate(old.state_schema):
        _check_kept(field, places.get(place), new.state_schema)
    names = {
        new.state_schema.names[now]: old.state_schema.names[was] for was, now in places.items()
    }
    migrate_back = Migrate(
        drop=tuple(name for name in new.state_schema.names if name not in names),
        rename={name: before for name, before in names.items() if name != before},
    )
    return migrate_back.bind(
        new.state_schema,
        old.state_schema,
        keys=new.key_schema,
        expired_before_ms=expired_before(new, old, None),
    )


def _check_kept(field: pa.Field, place: int | None, now: pa.Schema) -> None:
    if place is None:
        msg = f"the change drops column {field.name!r} or computes it anew: {INSTEAD}"
        raise RefusedError(msg)
    if now.field(place).type != field.type:
        msg = (
            f"column {field.name!r} was {field.type} and is now {now.field(place).type}, which has values that the old"
            f" type cannot hold: {INSTEAD}"
        )
        raise RefusedError(msg)
