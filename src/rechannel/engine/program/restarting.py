"""Decide whether a program may continue with what the journal holds. Pure.

A restart accepts any program text whose names still mean what is stored under them. It accepts changed functions, and
refuses what changes that meaning, with advice:

- An operator keeps its keys, its state, its windows and how long it remembers keys. A live change can convert what a
  restart cannot, because it knows the time of the change.
- A source that the journal does not know reads from its beginning. Next to existing state, this is either a renamed
  source, whose rows would count twice, or intended: `start(fresh=[name])` confirms it.
- A sink in quarantine that owes timesteps must stay in the program until it is released, or until
  `start(without=[name])` gives it up.
- The program text from before a live change would undo the change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from rechannel.dataflow.evolution.description import Description
from rechannel.dataflow.evolution.succession import hidden_types, other_types
from rechannel.dataflow.graph.nodes import Dataflow, Sink, Source, Stateful
from rechannel.engine.journal.incarnations import NOTE, SINKS
from rechannel.engine.journal.quarantine import owed, quarantined
from rechannel.engine.journal.state import JournalState
from rechannel.errors import OldProgramError, OtherDataflowError, RefusedError
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.kernels.protocol.migrate import fingerprint as columns_fingerprint
from rechannel.model.codec import Json

INSTEAD = (
    "Start the program unchanged and change it while it runs, or give the operator another name"
)


def lasting(dataflow: Dataflow, logics: Mapping[str, StatefulLogic]) -> dict[str, dict[str, Json]]:
    """Return what stored state means beyond its columns, by operator.

    fixed: its windows, or how long it remembers keys. timeout_ms: timeout of keys without a timer of their own. types:
    of inputs, by aggregate, where its columns do not show them; absent without. columns: fingerprint of its key and
    state, as Arrow has them. ends_ms: the timeout by which a changelog looks for ends; absent without. logics: of all
    operators.
    """
    out: dict[str, dict[str, Json]] = {}
    for node in dataflow.nodes:
        if isinstance(node, Stateful):
            logic, fixed = logics[node.name], node.spec.fixed
            types = hidden_types(logic)
            out[str(node.name)] = {
                "fixed": None if fixed is None else str(fixed),
                "timeout_ms": None if fixed is not None else node.spec.timeout_ms,
                "columns": columns_fingerprint(logic.key_schema, logic.state_schema),
                **({"types": types} if types else {}),
                **(
                    {}
                    if (ends := Description.of(logic).noted_timeout) is None
                    else {"ends_ms": ends}
                ),
            }
    return out


def sources_of(dataflow: Dataflow) -> dict[str, dict[str, Json]]:
    """Return kind and place of each source, by name. Lookup tables are left out: they may be read anew at any time."""
    return {
        str(node.name): {"kind": type(node.connector).__name__, "place": node.connector.describe()}
        for node in dataflow.nodes
        if isinstance(node, Source) and not node.connector.rereadable
    }


def sinks_of(dataflow: Dataflow) -> list[str]:
    """Return the names of all sinks."""
    return [str(node.name) for node in dataflow.nodes if isinstance(node, Sink)]


def elsewhere(dataflow: Dataflow, held: Mapping[str, Json]) -> list[str]:
    """Return a sentence for each source that reads another place than before."""
    before: Mapping[str, Mapping[str, Json]] = held.get("sources") or {}
    return [
        f"source {name!r} was {before[name]['place']} and is now {facts['place']}: it continues from its offset there,"
        " and rows that it has read at the old place count twice if the new place has them too"
        for name, facts in sources_of(dataflow).items()
        if name in before and before[name]["place"] != facts["place"]
    ]


def check_state(
    operators: Mapping[str, str],
    lasts: Mapping[str, Mapping[str, Json]],
    held: Mapping[str, Json],
) -> None:
    """Raise OtherDataflowError unless the operators can use the stored state.

    operators: what their state depends on. lasts: see `lasting`. held: what the journal keeps of the present version.
    """
    before: Mapping[str, str] | None = held.get("operators")
    if before is not None and dict(before) != dict(operators):
        changed = sorted(n for n in {*before, *operators} if before.get(n) != operators.get(n))
        msg = (
            f"operators {changed} have other keys or state than this state directory"
            f" ({_difference(changed[0], before, operators)}): this is another version of the program, the job was"
            " changed while it ran, or the directory belongs to another dataflow. For a new version, `rechannel upgrade"
            " FILE` shows what would become of the state, and start(upgrade=True) carries it over; otherwise start the"
            " present version of the program, or use another directory"
        )
        raise OtherDataflowError(msg)
    for name, facts in (held.get("lasting") or {}).items():
        if name not in lasts:
            continue
        reason = _forgets_otherwise(facts, lasts[name])
        if reason is None and before is not None:
            reason = _other_columns(facts, lasts[name])
        if reason is not None:
            raise OtherDataflowError(f"operator {name!r}: {reason}. {INSTEAD}")


def _difference(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> str:
    return f"{name!r} was {before.get(name, 'not there')} and would be {after.get(name, 'gone')}"


def other_memory(was: object, will: object) -> str:
    """Return why an operator that remembers otherwise cannot go on with what is stored. was, will: `fixed`."""
    return (
        f"its windows, or how long it remembers keys, would change from {was} to {will}: dropped state cannot come"
        " back, and state that is stored was kept for the old ones"
    )


def _forgets_otherwise(before: Mapping[str, Json], after: Mapping[str, Json]) -> str | None:
    was, will = before.get("fixed"), after.get("fixed")
    # Journals of earlier releases say less of some operators, whose text began as it does now.
    if was is not None and will != was and not str(will).startswith(f"{was} by "):
        return other_memory(was, will)
    old_types, new_types = before.get("types") or {}, after.get("types") or {}
    for name in other_types(old_types, new_types):
        return (
            f"the column of its aggregate {name!r} would change from {old_types[name]} to {new_types[name]}, and what"
            " is stored was made of the former type: the same values would count twice"
        )
    old, new = before.get("ends_ms"), after.get("ends_ms")
    if old is not None and new is not None and old != new:
        return (
            f"its timeout would change from {old} ms to {new} ms while its changelog is read: keys that are stored"
            " would end without a word"
        )
    old, new = before.get("timeout_ms"), after.get("timeout_ms")
    if old is not None and (new is None or new > old):
        longer = "none" if new is None else f"{new} ms"
        return f"its timeout would change from {old} ms to {longer}: keys that have expired would come back"
    return None


def _other_columns(before: Mapping[str, Json], after: Mapping[str, Json]) -> str | None:
    """Return why state of the same SQL types cannot be read: Arrow has several types for one."""
    if before.get("columns") in {None, after.get("columns")}:
        return None
    return "its state was written with other Arrow types of the same SQL types (such as large lists in place of lists)"


def check_sources(
    sources: Mapping[str, Mapping[str, Json]],
    held: Mapping[str, Json],
    *,
    begun: bool,
    fresh: Collection[str],
    without: Collection[str],
) -> None:
    """Raise OtherDataflowError for sources that would silently read from their beginning, or lose their offset.

    sources: see `sources_of`. held: what the journal keeps of the present version. begun: whether a timestep was
    planned. fresh, without: sources that are meant to begin, and to be given up. Raises RefusedError if `fresh` names
    an unknown source.
    """
    identity: Mapping[str, Mapping[str, Json]] = held.get("identity") or {}
    known = {name for name, facts in identity.items() if facts["kind"] == "source"}
    unknown = sorted(set(fresh) - set(sources))
    if unknown:
        msg = f"start(fresh={unknown}): unknown sources; the program has {sorted(sources)}"
        raise RefusedError(msg)
    _check_source_kinds(sources, held)
    new, gone = sorted(set(sources) - known - set(fresh)), sorted(known - set(sources))
    gone = sorted(set(gone).intersection(held.get("sources") or gone) - set(without))
    if not begun or not identity or not (new or gone):
        return
    raise OtherDataflowError(_sources_differ(new, gone))


def _check_source_kinds(
    sources: Mapping[str, Mapping[str, Json]], held: Mapping[str, Json]
) -> None:
    for name, facts in (held.get("sources") or {}).items():
        if name in sources and sources[name]["kind"] != facts["kind"]:
            msg = (
                f"source {name!r} would change from {facts['place']} to {sources[name]['place']}, and its offsets do"
                " not fit there: give the new source another name"
            )
            raise OtherDataflowError(msg)


def _sources_differ(new: Sequence[str], gone: Sequence[str]) -> str:
    """Return what is wrong. new: sources that the journal does not know. gone: those that the program lacks."""
    if new and gone:
        return (
            f"this state directory does not know the sources {new}, and {gone} are gone: a renamed source would be"
            " read from its beginning again, and its rows would count twice. Give it its old name, as in"
            f" name={gone[0]!r}; or let it go on under its new name, with rc.Job(...,"
            f" renamed={{{gone[0]!r}: {new[0]!r}}}) and start(upgrade=True); or confirm with start(fresh={new},"
            f" without={gone})"
        )
    if new:
        return (
            f"this state directory does not know the sources {new}, which would be read from their beginning, next to"
            " the state of what was read before. Add sources while the job runs, with rc.changes.add(...), or confirm"
            f" with start(fresh={new})"
        )
    return (
        f"the program lacks the sources {gone}: their offsets would be forgotten, and they could not continue."
        " Remove sources while the job runs, with rc.changes.remove(...), or confirm with"
        f" start(without={gone})"
    )


def check_sinks(
    sinks: Collection[str], state: JournalState, *, without: Collection[str] = ()
) -> None:
    """Raise OtherDataflowError if the program lacks a sink in quarantine, whose rows would be lost.

    sinks: names of the program's sinks. state: of the journal. without: sinks that are meant to be given up.
    """
    known: Mapping[str, Mapping[str, Json]] = (state.notes.get(NOTE) or {}).get(SINKS, {})
    held = quarantined(state.notes)
    for name in sorted(known.keys() - set(sinks) - set(without)):
        who = known[name]["id"]
        left = sorted(owed(state, name, who)) if who in held else []
        if left:
            msg = (
                f"the program lacks the sink {name!r}, which is in quarantine ({held[who]['reason']}): its timesteps"
                f" {left[0]} to {left[-1]} would never be published. Start with the sink and release it with"
                f" job.release({name!r}) when it can write again, or give up its rows with start(without=[{name!r}])"
            )
            raise OtherDataflowError(msg)


def check_age(
    identity: Mapping[str, Json],
    known: Mapping[str, Json],
    current: int,
    *,
    why_not: Callable[[], str | None],
) -> None:
    """Raise OldProgramError for the program text from before a live change.

    known: versions in the journal. why_not: returns why this text cannot revert the change, or None if it can.
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
                ", or revert the change with start(revert=True)"
                if reason is None
                else f"; this text cannot revert the change: {reason}"
            )
            now = known[str(current)]["identity"]
            differs = sorted(n for n in {*now, *identity} if now.get(n) != identity.get(n))
            msg = (
                f"this program is version {version} of the dataflow; the job was changed while it ran"
                f" ({'; '.join(since)}), and {differs} are different now. Make these changes in the program's"
                f" text{back}"
            )
            raise OldProgramError(msg)


def check_incarnations(
    identity: Mapping[str, Json], known: Mapping[str, Json], present: Mapping[str, str]
) -> None:
    """Raise OtherDataflowError if the text is of a version whose operators were others of the same names.

    identity: of the text. known: what the journal keeps, by version. present: incarnations of the running operators.
    """
    same = [v for v in sorted(map(int, known)) if known[str(v)]["identity"] == identity]
    if not same:
        return
    before: Mapping[str, str] = known[str(same[-1])].get("incarnations") or {}
    others = sorted(name for name, who in before.items() if present.get(name, who) != who)
    if others:
        msg = (
            f"this program is version {same[-1]} of the dataflow; its operators {others} have been removed since, and"
            " other operators with these names have been added, with other state. Start the present version of the"
            " program, or use another directory"
        )
        raise OtherDataflowError(msg)
