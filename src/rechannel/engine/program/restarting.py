"""May this program text go on with what the journal holds? Pure.

A restart takes any text whose names still mean what is stored under them. What changes that meaning is refused, with
what to do instead; what only changes functions is not:

- An operator keeps its keys, its state, its windows and how long it remembers. A live change may convert what a restart
  cannot: it knows the time of the change.
- A source that the journal does not know reads from its beginning. Beside state that there is already, that is either a
  source under another name, whose rows would count twice, or meant: then `start(fresh=[name])` says so.
- A sink in quarantine that owes timesteps stays until it is released, or until `start(without=[name])` gives it up.
- The text of before a live change would undo the change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from rechannel.dataflow.graph import Dataflow, Sink, Source, Stateful
from rechannel.engine.journal.incarnations import NOTE, SINKS
from rechannel.engine.journal.quarantine import owed, quarantined
from rechannel.engine.journal.state import JournalState
from rechannel.errors import OldProgramError, OtherDataflowError, RefusedError
from rechannel.model.codec import Json
from rechannel.sources.table import TableConnector

INSTEAD = (
    "Start the program as it was and change it while it runs, or give the operator another name"
)


def lasting(dataflow: Dataflow) -> dict[str, dict[str, Json]]:
    """What stored state means beyond its columns, by operator. fixed: windows, or how long keys are remembered.

    timeout_ms: after which a key is gone that no timer of its own tells.
    """
    return {
        str(node.name): {
            "fixed": None if (fixed := node.spec.fixed) is None else str(fixed),
            "timeout_ms": None if fixed is not None else node.spec.timeout_ms,
        }
        for node in dataflow.nodes
        if isinstance(node, Stateful)
    }


def sources_of(dataflow: Dataflow) -> dict[str, dict[str, Json]]:
    """What every source reads: its kind, and the place in a few words. Tables of lookups may begin anew at any time."""
    return {
        str(node.name): {"kind": type(node.connector).__name__, "place": node.connector.describe()}
        for node in dataflow.nodes
        if isinstance(node, Source) and not isinstance(node.connector, TableConnector)
    }


def sinks_of(dataflow: Dataflow) -> list[str]:
    """Names of all sinks."""
    return [str(node.name) for node in dataflow.nodes if isinstance(node, Sink)]


def elsewhere(dataflow: Dataflow, held: Mapping[str, Json]) -> list[str]:
    """Sources that read another place than before under their name, in sentences."""
    before: Mapping[str, Mapping[str, Json]] = held.get("sources") or {}
    return [
        f"source {name!r} was {before[name]['place']} and is {told['place']} now: it goes on from its offset there;"
        " rows that it had read at the old place and finds at the new one count twice"
        for name, told in sources_of(dataflow).items()
        if name in before and before[name]["place"] != told["place"]
    ]


def check_state(
    operators: Mapping[str, str],
    lasts: Mapping[str, Mapping[str, Json]],
    held: Mapping[str, Json],
) -> None:
    """Raise OtherDataflowError unless the operators understand the state that there is.

    operators: what their state depends on. lasts: as `lasting` says. held: what the journal keeps of the
    present version.
    """
    before: Mapping[str, str] | None = held.get("operators")
    if before is not None and dict(before) != dict(operators):
        changed = sorted(n for n in {*before, *operators} if before.get(n) != operators.get(n))
        msg = (
            f"operators {changed} have other keys or state than this state directory"
            f" ({_difference(changed[0], before, operators)}): it was changed while it ran, or belongs to another"
            " dataflow. Start the program as it is now, or give this one a directory of its own"
        )
        raise OtherDataflowError(msg)
    for name, told in (held.get("lasting") or {}).items():
        if name in lasts and (reason := _forgets_otherwise(told, lasts[name])):
            raise OtherDataflowError(f"operator {name!r}: {reason}. {INSTEAD}")


def _difference(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> str:
    return f"{name!r} was {before.get(name, 'not there')} and would be {after.get(name, 'gone')}"


def _forgets_otherwise(before: Mapping[str, Json], after: Mapping[str, Json]) -> str | None:
    was, will = before.get("fixed"), after.get("fixed")
    if was != will:
        return (
            f"its windows, or how long it remembers, were {was} and would be {will}: what is gone cannot come back, and"
            " what is kept was kept for the old ones"
        )
    old, new = before.get("timeout_ms"), after.get("timeout_ms")
    if old is not None and (new is None or new > old):
        longer = "given up" if new is None else f"{new} ms"
        return f"its timeout was {old} ms and would be {longer}: keys that it has ended would come back"
    return None


def check_sources(
    sources: Mapping[str, Mapping[str, Json]],
    held: Mapping[str, Json],
    *,
    begun: bool,
    fresh: Collection[str],
    without: Collection[str],
) -> None:
    """Raise OtherDataflowError for sources that would read from their beginning, or lose their place, without a word.

    sources: as `sources_of` says. held: what the journal keeps of the present version. begun: whether a timestep was
    planned. fresh, without: sources that are meant to begin, and to be given up. Raises RefusedError where `fresh`
    names what there is not.
    """
    identity: Mapping[str, Mapping[str, Json]] = held.get("identity") or {}
    known = {name for name, told in identity.items() if told["kind"] == "source"}
    unknown = sorted(set(fresh) - set(sources))
    if unknown:
        msg = (
            f"start(fresh={unknown}): there are no such sources; the program has {sorted(sources)}"
        )
        raise RefusedError(msg)
    for name, told in (held.get("sources") or {}).items():
        if name in sources and sources[name]["kind"] != told["kind"]:
            msg = (
                f"source {name!r} was {told['place']} and would be {sources[name]['place']}, and offsets are kept under"
                " its name: give it another"
            )
            raise OtherDataflowError(msg)
    new, gone = sorted(set(sources) - known - set(fresh)), sorted(known - set(sources))
    gone = sorted(set(gone).intersection(held.get("sources") or gone) - set(without))
    if not begun or not identity or not (new or gone):
        return
    if new and gone:
        why = (
            f"this state directory does not know the sources {new}, and {gone} are gone: a source that was renamed"
            " would be read from its beginning again and count twice. Give it the name that it had, as in"
            f" name={gone[0]!r}; or, if that is meant, start(fresh={new}, without={gone})"
        )
    elif new:
        why = (
            f"this state directory does not know the sources {new}, which would be read from their beginning, beside"
            " state of what was read before. Add sources while the job runs, rc.changes.add(...); or, if that is meant,"
            f" start(fresh={new})"
        )
    else:
        why = (
            f"the program does not have the sources {gone}, whose offsets would be forgotten: they could not go on"
            " where they were. Remove sources while the job runs, rc.changes.remove(...); or, if that is meant,"
            f" start(without={gone})"
        )
    raise OtherDataflowError(why)


def check_sinks(
    sinks: Collection[str], state: JournalState, *, without: Collection[str] = ()
) -> None:
    """Raise OtherDataflowError where a program does not have a sink in quarantine, whose rows would be lost.

    sinks: names of the program's. state: of the journal. without: sinks that are meant to be given up.
    """
    known: Mapping[str, Mapping[str, Json]] = (state.notes.get(NOTE) or {}).get(SINKS, {})
    held = quarantined(state.notes)
    for name in sorted(known.keys() - set(sinks) - set(without)):
        who = known[name]["id"]
        left = sorted(owed(state, name, who)) if who in held else []
        if left:
            msg = (
                f"the program does not have the sink {name!r}, which is in quarantine ({held[who]['reason']}): its"
                f" timesteps {left[0]} to {left[-1]} would never be shown. Start with it, and release it when it can"
                f" write again, job.release({name!r}); or, if its rows are to be given up, start(without=[{name!r}])"
            )
            raise OtherDataflowError(msg)


def check_age(
    identity: Mapping[str, Json],
    known: Mapping[str, Json],
    current: int,
    *,
    why_not: Callable[[], str | None],
) -> None:
    """Raise OldProgramError for the text of before a live change.

    known: versions, as the journal keeps them. why_not: why this text cannot lead back, or None where it can.
    """
    for version in sorted(map(int, known)):
        if version < current and known[str(version)]["identity"] == identity:
            since = [
                f"version {later}: {known[str(later)]['text']}"
                for later in range(version + 1, current + 1)
                if str(later) in known
            ]
            reason = why_not()
            back = (
                ", or go back on purpose with start(revert=True)"
                if reason is None
                else f"; there is no way back with this text: {reason}"
            )
            now = known[str(current)]["identity"]
            differs = sorted(n for n in {*now, *identity} if now.get(n) != identity.get(n))
            msg = (
                f"this program is version {version} of the dataflow; it was changed while it ran"
                f" ({'; '.join(since)}), and {differs} are different now. Start the program with these changes in"
                f" its text{back}"
            )
            raise OldProgramError(msg)


def check_incarnations(
    identity: Mapping[str, Json], known: Mapping[str, Json], present: Mapping[str, str]
) -> None:
    """Raise OtherDataflowError where a text is that of a version whose operators were others of the same names.

    identity: of the text. known: what the journal keeps, by version. present: incarnations of the operators that run.
    """
    same = [v for v in sorted(map(int, known)) if known[str(v)]["identity"] == identity]
    if not same:
        return
    before: Mapping[str, str] = known[str(same[-1])].get("incarnations") or {}
    others = sorted(name for name, who in before.items() if present.get(name, who) != who)
    if others:
        msg = (
            f"this program is version {same[-1]} of the dataflow; its operators {others} were removed since, and others"
            " were added under their names, whose state is not theirs. Start the program as it is now, or give this"
            " one a directory of its own"
        )
        raise OtherDataflowError(msg)
