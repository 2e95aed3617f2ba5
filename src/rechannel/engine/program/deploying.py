"""Deploy: a program text takes over from the running one, without a stop. Pure.

The rules are those of an upgrade (`upgrading`), so that a text means the same either way, and `succeed` makes the
version as for every live change. What an upgrade can do and a running job cannot is refused here, in one sentence.
The journal does not mark the version as one that began at a start (`AT_START`): an upgrade to the text before would
undo a deploy after every crash of a service whose file is still the old one.
"""

from __future__ import annotations

from collections.abc import Mapping

from rechannel.dataflow.evolution.declared import Declared
from rechannel.dataflow.evolution.difference import Difference
from rechannel.dataflow.evolution.evolution import with_logic
from rechannel.dataflow.graph.nodes import Dataflow
from rechannel.dataflow.identity.logic import function_of, logic_identity
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program.assigned import ASSIGNED
from rechannel.engine.program.carrying import Stored
from rechannel.engine.program.leading_back import Text
from rechannel.engine.program.restarting import check_sinks
from rechannel.engine.program.upgrading import Upgrade, upgraded
from rechannel.errors import OtherDataflowError, RefusedError
from rechannel.model.codec import Json

STOP = "a running job cannot do that: stop it, and `rechannel upgrade FILE --yes` does"


class UnchangedError(RefusedError):
    """The text is that of the running program."""


def deployed(
    text: Text,
    known: Mapping[str, Mapping[str, Json]],
    base: int,
    declared: Declared,
    stored: Stored,
    state: JournalState,
) -> Upgrade:
    """Return what a deploy does. known, base, stored: as for `upgraded`.

    Raises UnchangedError if there is nothing to do, OtherDataflowError with the line that is missing, RefusedError for
    what only an upgrade can do.
    """
    found = upgraded(text, known, base, declared, stored, state)
    if found is None:
        msg = "the program is the running one: there is nothing to deploy"
        raise UnchangedError(msg)
    if found.renamed:
        msg = f"new names ({dict(found.renamed)}): {STOP}"
        raise RefusedError(msg)
    check_sinks(tuple(text.identity), state, without=declared.without)
    return found


def check_live(found: Difference) -> None:
    """Raise RefusedError for what an upgrade would do, and a running job cannot: other places and settings."""
    if found.refusals:
        msg = f"{'; '.join(found.refusals)}. To keep the text: {STOP}"
        raise RefusedError(msg)


def with_assigned(dataflow: Dataflow, running: Dataflow, record: Mapping[str, Json]) -> Dataflow:
    """Return a text's dataflow with logic of parameters that nodes were given live, as a restart makes it again.

    running, record: of the running version. Where the text's own logic is another one since, the text counts.
    """
    held: Mapping[str, Mapping[str, Json]] = record.get(ASSIGNED) or {}
    for name, one in held.items():
        node, now = dataflow.by_name.get(name), running.by_name.get(name)
        if node is None or now is None or logic_identity(node).digest != one["in_place_of"]:
            continue
        function = function_of(now)
        if function is None:
            msg = f"{name!r} was given logic live that this program cannot go on with: {STOP}"
            raise OtherDataflowError(msg)
        dataflow = with_logic(dataflow, name, function)
    return dataflow
