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
from dataclasses import dataclass, field, replace

from rechannel.profiling.spark.events import StageInfo
from rechannel.profiling.spark.sql_events import PlanNode, SqlEnded, SqlPlanned, SqlStarted

_HIDDEN = re.compile(
    r"WholeStageCodegen|InputAdapter|AdaptiveSparkPlan|QueryStage|AQEShuffleRead|ResultQueryStage"
)
"""Nodes that are about how Spark runs a plan."""
_PYTHON = re.compile(r"\w*(?:InPandas|InArrow|Python)\w*\W")
"""Matches a node that calls Python functions."""
PYTHON_RDD = "PythonRDD"
"""Name of an RDD that calls functions of a Python program."""
_MARKS = "!'"
"""What begins the text of a node that is not resolved, or that Spark cannot see to have its input."""
_CALL = re.compile(r"([\w<>]+)\(")
_NUMBER = re.compile(r"#\d+L?|plan_id=\d+")
_NAME = 200
"""Characters of the name of a node."""
_PARENTHESIS = re.compile(r"[()]")
_SEARCHED = 2_000
"""Characters of a node that are searched for functions."""
_ARGUMENTS = 20_000
"""Characters of a node within which the arguments of a function end."""
DETAIL = 300
"""Characters of a node with its arguments that are kept."""
DETAILS = 1 << 24
"""Characters that are kept in all; further nodes are known by their names."""
NOWHERE = re.compile(r"NativeMethodAccessorImpl|CompletableFuture")
"""Matches call sites that are in no program: of what a Python program requests through the gateway, and of what Spark
SQL does in threads of its own.
"""


@dataclass(frozen=True, slots=True)
class StageNodes:
    """Nodes of a plan that one stage runs, from the leaves on."""

    nodes: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    """The nodes with their arguments, `DETAIL` characters each."""
    functions: tuple[str, ...] = ()
    """Names of Python functions."""
    name: str = ""
    """For users: distinct nodes, and the functions in them."""


UNKNOWN_NODES = StageNodes()


@dataclass(frozen=True, slots=True)
class _Part:
    """What lies between exchanges."""

    nodes: list[PlanNode] = field(default_factory=list)
    """From the leaves on."""
    counters: list[int] = field(default_factory=list)
    """Accumulators of the nodes."""

    def named(self) -> StageNodes:
        """Return its nodes."""
        texts = [node.text.lstrip(_MARKS) for node in self.nodes]
        functions = [python_functions(text) for text in texts]
        # A scan of files that are no table ends with a space: there would be the name of the table.
        names = [node.name.strip() for node in self.nodes]
        shown = [
            f"{name} {found[0]}" if found else name
            for name, found in zip(names, functions, strict=True)
        ]
        return StageNodes(
            nodes=tuple(names),
            details=tuple(text[:DETAIL] for text in texts),
            functions=tuple(dict.fromkeys(name for found in functions for name in found)),
            name=" > ".join(dict.fromkeys(shown)),
        )


def python_functions(text: str) -> list[str]:
    """Return the names of the Python functions that a node calls. text: the node with its arguments.

    A call of a Python function has a number, as a column has: `shout(upper(word#1))#9`. If no call
    has one, as in early versions of Spark, they are the outermost calls.
    """
    if not _PYTHON.match(text, 0, _NAME):
        return []
    numbered, outermost, end = [], [], 0
    closed = _closed(text)
    for call in _CALL.finditer(text, 0, _SEARCHED):
        at = closed.get(call.end(), len(text))
        if text[at : at + 1] == "#":
            numbered.append(call[1])
        if call.start() >= end:
            outermost.append(call[1])
            end = at
    return list(dict.fromkeys(numbered or outermost))


def _closed(text: str) -> dict[int, int]:
    """Return, by the place after an opening parenthesis, the place after the one that closes it."""
    found, opened = {}, []
    for each in _PARENTHESIS.finditer(text, 0, _ARGUMENTS):
        if each[0] == "(":
            opened.append(each.end())
        elif opened:
            found[opened.pop()] = each.end()
    return found


def counted(plan: PlanNode) -> Mapping[int, StageNodes]:
    """Return, by accumulator, the nodes of the part of a plan that uses it."""
    parts = [_Part()]
    _walk(plan, parts[0], parts)
    found = {}
    for part in parts:
        if part.nodes:
            found.update(dict.fromkeys(part.counters, part.named()))
    return found


def _walk(node: PlanNode, part: _Part, parts: list[_Part]) -> None:
    if "Exchange" in node.name:
        # An exchange ends one part and begins another; its metrics belong to both.
        below = _Part()
        parts.append(below)
        for child in node.children:
            _walk(child, below, parts)
        below.nodes.append(node)
        part.nodes.append(node)
        return
    for child in node.children:
        _walk(child, part, parts)
    part.counters.extend(metric.accumulator for metric in node.metrics)
    if not _HIDDEN.search(node.name):
        part.nodes.append(node)


@dataclass(slots=True)
class Plans:
    """Plans of SQL executions that are running."""

    _nodes: dict[int, StageNodes] = field(default_factory=dict)
    """By accumulator, of the execution that named it last: what is cached is in the plans of several."""
    _of: dict[int, dict[int, StageNodes]] = field(default_factory=dict)
    """The same of each execution."""
    _known: dict[tuple[str, ...], StageNodes] = field(default_factory=dict)
    _room: int = DETAILS

    def see(self, event: object) -> None:
        """Take up a new plan, a changed plan, or the end of an execution; plans that ended are
        dropped.
        """
        match event:
            case SqlStarted() | SqlPlanned():
                found = counted(event.plan)
                self._nodes.update(found)
                self._of.setdefault(event.execution, {}).update(found)
            case SqlEnded():
                for counter, nodes in self._of.pop(event.execution, {}).items():
                    if self._nodes.get(counter) is nodes:
                        del self._nodes[counter]

    def nodes(self, stage: StageInfo) -> StageNodes:
        """Return the nodes of a stage; none if no plan is known, or if the stage has not ended."""
        votes: Counter[int] = Counter()
        nodes: dict[int, StageNodes] = {}
        for each in stage.counters:
            if (found := self._nodes.get(each.accumulator)) is not None:
                votes[id(found)] += 1
                nodes[id(found)] = found
        return self._shared(nodes[votes.most_common(1)[0][0]]) if votes else UNKNOWN_NODES

    def _shared(self, found: StageNodes) -> StageNodes:
        """Return one value for all stages whose nodes differ in the numbers of columns only. Stages
        of streams do, so that a million of them take the memory of a few.
        """
        key = tuple(_NUMBER.sub("", text) for text in found.details)
        if (known := self._known.get(key)) is not None:
            return known
        self._room -= sum(map(len, key))
        if self._room < 0:
            return replace(found, details=())
        self._known[key] = found
        return found


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
    if shown and not NOWHERE.search(where):
        return f"{shown} ({where})"
    return shown or where


def _scope(text: str) -> str:
    try:
        return str(json.loads(text)["name"]).strip() if text else ""
    except (ValueError, KeyError, TypeError):
        return ""
