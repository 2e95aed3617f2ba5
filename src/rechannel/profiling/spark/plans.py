"""Names of stages for users: the nodes of the SQL plan, or the RDDs, and the call site.

A plan says which accumulators its nodes use, and a stage that has ended says which ones it used.
One stage does what lies between two exchanges of a plan, so a single common accumulator identifies
all its nodes.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rechannel.profiling.spark.events import PlanNode, SqlEnded, SqlPlanned, StageInfo

_HIDDEN = re.compile(
    r"WholeStageCodegen|InputAdapter|AdaptiveSparkPlan|QueryStage|AQEShuffleRead|ResultQueryStage"
)
"""Nodes that are about how Spark runs a plan."""
_FUNCTION = re.compile(r"\w*(?:InPandas|InArrow|EvalPython)\w*\W.*?(\w+)\(")
"""Matches the name of the first Python function of a node."""
_NOWHERE = "NativeMethodAccessorImpl"
"""The call site of everything that a Python program requests through the gateway."""


@dataclass(frozen=True, slots=True)
class _Part:
    """What lies between exchanges."""

    names: list[str] = field(default_factory=list)
    """Nodes, from the leaves on."""
    counters: list[int] = field(default_factory=list)
    """Accumulators of the nodes."""


def counted(plan: PlanNode) -> Mapping[int, str]:
    """Return, by accumulator, the nodes of the part of a plan that uses it."""
    parts = [_Part()]
    _walk(plan, parts[0], parts)
    return {
        counter: " > ".join(dict.fromkeys(part.names))
        for part in parts
        if part.names
        for counter in part.counters
    }


def _walk(node: PlanNode, part: _Part, parts: list[_Part]) -> None:
    if "Exchange" in node.name:
        # An exchange ends one part and begins another; its metrics belong to both.
        below = _Part()
        parts.append(below)
        for child in node.children:
            _walk(child, below, parts)
        below.names.append(node.name)
        part.names.append(node.name)
        return
    for child in node.children:
        _walk(child, part, parts)
    part.counters.extend(metric.accumulator for metric in node.metrics)
    if not _HIDDEN.search(node.name):
        function = _FUNCTION.match(node.text)
        part.names.append(f"{node.name} {function[1]}" if function else node.name)


@dataclass(slots=True)
class Plans:
    """Plans of SQL executions that are running."""

    _names: dict[int, str] = field(default_factory=dict)
    _of: dict[int, list[int]] = field(default_factory=dict)

    def see(self, event: object) -> None:
        """Take up a new plan, a changed plan, or the end of an execution; plans that ended are
        dropped.
        """
        match event:
            case SqlPlanned():
                found = counted(event.plan)
                self._names.update(found)
                self._of.setdefault(event.execution, []).extend(found)
            case SqlEnded():
                for counter in self._of.pop(event.execution, ()):
                    self._names.pop(counter, None)

    def nodes(self, stage: StageInfo) -> str:
        """Return the nodes of a stage; "" if no plan is known, or if the stage has not ended."""
        votes = Counter(
            name
            for each in stage.counters
            if (name := self._names.get(each.accumulator)) is not None
        )
        return votes.most_common(1)[0][0] if votes else ""


def stage_name(stage: StageInfo, nodes: str = "") -> str:
    """Return the name of a stage. nodes: of its plan, if they are known."""
    if nodes:
        return named([nodes], stage.name)
    rdds = sorted(stage.rdds, key=lambda rdd: rdd.number)
    scopes = [name for rdd in rdds if (name := _scope(rdd.scope))]
    return named(scopes or [rdd.name for rdd in rdds if rdd.name], stage.name)


def named(nodes: Sequence[str], where: str) -> str:
    """Return nodes and call site as one name; nodes about how Spark runs a plan are left out if
    others remain.
    """
    plain = [node for node in nodes if not _HIDDEN.search(node)]
    shown = " > ".join(dict.fromkeys(plain or nodes))
    if shown and _NOWHERE not in where:
        return f"{shown} ({where})"
    return shown or where


def _scope(text: str) -> str:
    try:
        return str(json.loads(text)["name"]).strip() if text else ""
    except (ValueError, KeyError, TypeError):
        return ""
