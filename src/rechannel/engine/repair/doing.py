"""Carry out the actions that the user has chosen for findings, while no driver runs."""

from __future__ import annotations

from collections.abc import Collection

from rechannel.engine.journal.reading import numbers_of, read_only
from rechannel.engine.repair.alone import WRITTEN_MEANWHILE, Hand, append_alone, lease_of
from rechannel.engine.repair.evidence import Evidence, look
from rechannel.engine.repair.findings import Action, Finding, findings
from rechannel.errors import RefusedError, StateInUseError
from rechannel.state.keys import JOURNAL, LEASE, SNAPSHOTS
from rechannel.state.store import Store


def found(store: Store, hand: Hand) -> tuple[Finding, ...]:
    """Present findings. Raises NewerFormatError."""
    return findings(_look(store, hand))


def repair(store: Store, hand: Hand, chosen: Collection[str] | None) -> tuple[Finding, ...]:
    """Carry out the actions of findings; returns these findings.

    chosen: their ids; None = all whose action is advised. A finding that an earlier action has resolved is left out.
    Raises StateInUseError while a driver runs, or if one has run meanwhile, RefusedError for an unknown id or a finding
    without an action.
    """
    present = {finding.id: finding for finding in found(store, hand)}
    for name in chosen or ():
        _check(name, present)
    if chosen is None:
        chosen = {f.id for f in present.values() if f.advised and f.action is not None}
    wanted = [finding for finding in present.values() if finding.id in chosen]
    for finding in wanted:
        _deal(store, hand, finding.id)
    return tuple(wanted)


def _deal(store: Store, hand: Hand, name: str) -> None:
    """Carry out one action, on the state as it is now: an earlier action may have changed what has to be done."""
    before = _written(store)
    finding = next((f for f in found(store, hand) if f.id == name), None)
    if finding is None or finding.action is None:
        return
    with lease_of(store, hand):
        # A driver may have come and gone between the look and the lease.
        if _written(store) != before:
            raise StateInUseError(WRITTEN_MEANWHILE)
        _files(store, finding.action)
        if finding.action.bodies:
            append_alone(store, hand, read_only(store), finding.action.bodies)


def _written(store: Store) -> tuple[list[int], list[int]]:
    """Return the numbers of entries and snapshots that there are: any driver changes them."""
    return numbers_of(store, JOURNAL), numbers_of(store, SNAPSHOTS)


def _look(store: Store, hand: Hand) -> Evidence:
    return look(store, where=hand.holder.where, wall_ms=hand.clock(), started=hand.started)


def _check(name: str, present: dict[str, Finding]) -> None:
    if name not in present:
        msg = f"there is no finding {name!r}; there are {sorted(present)}"
        raise RefusedError(msg)
    if present[name].action is None:
        msg = f"nothing can be done about {name!r} here: {present[name].consequence}"
        raise RefusedError(msg)


def _files(store: Store, action: Action) -> None:
    for key, data in action.put.items():
        store.put(key, data)
    for key in action.delete:
        if key != LEASE:  # this process holds it now, and releases it at the end
            store.delete(key)
