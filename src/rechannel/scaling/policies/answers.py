"""What the policy for timesteps found, as values and in words: advice, evidence, and a sentence. See `timesteps.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rechannel.profiling.model.words import counted
from rechannel.scaling.model.cores import Taken, Turns
from rechannel.scaling.model.fits import ESTIMATE, FLAT, STEEP, Costs
from rechannel.scaling.model.timesteps import Pace
from rechannel.scaling.policies.policy import Advice, Cores, Seen
from rechannel.scaling.policies.skew import Skews


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """What the evaluation found, before it is put into words. Arrays are by operator."""

    operators: tuple[str, ...]
    cores: Cores
    """What there is."""
    turns: Turns
    """For the costs as fitted and both ends, shape (3, operators)."""
    pace: Pace
    costs: Costs
    skews: Skews
    targets: Mapping[str, float]
    offset: float
    needed: tuple[int, int, int]
    """Cores: as fitted, and at both ends."""
    without_remedies: int
    """Cores that would be needed with the skew as it is now."""
    keeps: bool
    executors: int
    taken: Taken
    """The tasks on those executors, and what they take; its arrays are of shape (3, ...)."""


def executors_of(cores: int, present: Cores) -> int:
    """Return the executors with at least a number of cores."""
    return -(-cores // present.cores_per_executor)


def enough(needed: int, most: int, present: Cores) -> int:
    """Return the executors for the cores that are needed; if that is fewer, for the most that may be needed."""
    executors = executors_of(needed, present)
    if executors >= present.executors:
        return executors
    return min(executors_of(most, present), present.executors)


def changes(advice: Advice, seen: Seen) -> bool:
    """Return whether advice is anything but what there is, or names a remedy."""
    present = seen.parallelism
    same = all(count == present[name] for name, count in advice.parallelism.items())
    executors = None if seen.cores is None else seen.cores.executors
    return not same or advice.executors != executors or bool(advice.remedies)


def differs(seen: Seen, answer: Answer) -> bool:
    """Return what `changes` does of the advice that an answer becomes, without putting it into words."""
    if answer.executors != answer.cores.executors:
        return True
    if answer.skews.remedies:
        return True
    tasks, present = answer.taken.tasks[ESTIMATE].tolist(), seen.activities
    places = _scalable(seen, answer)
    names = answer.operators
    return any(int(tasks[at]) != present[names[at]].reports.parallelism for at in places)


def _scalable(seen: Seen, answer: Answer) -> list[int]:
    """Return the places of the operators that can be scaled: those with known costs, without sources."""
    inputs, known = seen.topology.inputs, answer.costs.known.tolist()
    return [at for at, name in enumerate(answer.operators) if inputs[name] and known[at]]


def advice_of(seen: Seen, answer: Answer) -> Advice:
    """Return the answer as advice."""
    cores = answer.cores
    each = [executors_of(needed, cores) for needed in answer.needed] + [answer.executors]
    places = _scalable(seen, answer)
    names = [answer.operators[place] for place in places]
    ends = np.sort(answer.taken.tasks[:, places], axis=0).astype(int).tolist()
    tasks = answer.taken.tasks[ESTIMATE, places].astype(int).tolist()
    evidence = evidence_of(answer)
    return Advice(
        parallelism=dict(zip(names, tasks, strict=True)),
        executors=answer.executors,
        reason=_reason(answer, evidence),
        evidence=evidence | {"executors": {"low": min(each), "high": max(each)}},
        low=dict(zip(names, ends[0], strict=True)),
        high=dict(zip(names, ends[-1], strict=True)),
        remedies={answer.operators[at]: what for at, what in answer.skews.remedies.items()},
    )


def evidence_of(answer: Answer) -> dict[str, Any]:
    """Return the figures of an answer, as JSON can hold them."""
    turns, pace, names = answer.turns, answer.pace, answer.operators
    taken = answer.taken
    took = taken.turns_ms
    used = {
        names[int(took[ESTIMATE].argmax())]: float(taken.longest[ESTIMATE]),
        "timestep": float(taken.whole[ESTIMATE]),
        "cores": float(taken.work[ESTIMATE]),
    }
    binds = max(used, key=lambda name: used[name])
    hangs_on = names[int(np.abs(took[FLAT] - took[STEEP]).argmax())]
    fixed, row, turn = (each.T.tolist() for each in (turns.fixed_ms, turns.row_ms, took))
    heaviest, remains = answer.skews.heaviest.tolist(), answer.skews.remains.tolist()
    samples = answer.costs.samples.tolist()
    operators = {
        name: {
            "target_per_s": answer.targets[name],
            "fixed_ms": fixed[place][ESTIMATE],
            "row_ms": row[place][ESTIMATE],
            "fixed_ms_ends": fixed[place][FLAT:],
            "row_ms_ends": row[place][FLAT:],
            "turn_ms": turn[place][ESTIMATE],
            "turn_ms_ends": sorted(turn[place][FLAT:]),
            "heaviest": heaviest[place],
            "heaviest_after": remains[place],
            "samples": samples[place],
        }
        for place, name in enumerate(names)
    }
    return {
        "cores": answer.needed[ESTIMATE],
        "cores_low": min(answer.needed),
        "cores_high": max(answer.needed),
        "cores_without_remedies": answer.without_remedies,
        "keeps": answer.keeps,
        "binds": binds,
        "used": used[binds],
        "hangs_on": hangs_on,
        "offset": answer.offset,
        "timestep_ms": float(pace.driver_ms + took[ESTIMATE].sum()),
        "operators": operators,
    }


def _reason(answer: Answer, evidence: Mapping[str, Any]) -> str:
    cores = answer.cores
    binds, low, high = evidence["binds"], evidence["cores_low"], evidence["cores_high"]
    what = {"timestep": "the whole timestep binds", "cores": "the work on all cores binds"}
    between = f"{low}" if low == high else f"{low} to {high}"
    share = f"{answer.pace.utilisation:.0%}"
    if not answer.keeps:
        begin = (
            f"no number of cores keeps an interval of {cores.interval_ms:g} ms at {share}; beyond"
            f" {evidence['cores']} hardly anything is gained: lengthen the interval"
        )
    else:
        begin = (
            f"{counted(evidence['cores'], 'core')} ({between}) will keep an interval of {cores.interval_ms:g} ms at"
            f" {share}: {counted(answer.executors, 'executor')} of {cores.cores_per_executor}"
        )
    skewed = "".join(
        f"; the heaviest task of {answer.operators[at]!r} has {answer.skews.heaviest[at]:.1f} times the mean: {what}"
        for at, what in answer.skews.remedies.items()
    )
    return (
        f"{begin}; {what.get(binds, f'the turn of {binds!r} binds')}, and most hangs on what"
        f" tasks of {evidence['hangs_on']!r} cost{skewed}"
    )
