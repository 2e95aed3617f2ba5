"""Schemas of the OpenAPI document for what bodies hold, from the registries of changes and strategies. Pure."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from rechannel.monitoring import DataflowNode, Flow, OperatorBins, SinkStatus
from rechannel.reconfigure import strategies
from rechannel.reconfigure.changes.registry import requestable
from rechannel.reconfigure.changes.together import MOST_CHANGES
from rechannel.reconfigure.checked import Checked
from rechannel.reconfigure.planfile import OF_JOB, OF_OPERATORS, WayInPlan
from rechannel.scaling.needs.values import StreamAdvice

Schema: TypeAlias = dict[str, Any]
Schemas: TypeAlias = dict[str, Schema]

ANSWERS = (StreamAdvice, DataflowNode, OperatorBins, Flow, SinkStatus)
"""Values that answers hold."""

REF = "#/components/schemas/{name}"


def schemas() -> Schemas:
    """All of them by name, as they are registered now."""
    return {
        **_kinds("Change", requestable()),
        **_kinds("Strategy", strategies.KINDS),
        **_plan(),
        **msgspec.json.schema_components(ANSWERS, ref_template=REF)[1],
    }


def _kinds(name: str, kinds: Iterable[type[Checked]]) -> Schemas:
    """A schema for each kind, and one that is any of them, told apart by `kind`."""
    known = tuple(kinds)
    _, made = msgspec.json.schema_components(known, ref_template=REF)
    for kind in known:
        made[kind.__name__] = _with_kind(kind, made[kind.__name__])
    refs = {kind.kind: REF.format(name=kind.__name__) for kind in known}
    either: Schema = {
        "oneOf": [{"$ref": ref} for ref in refs.values()],
        "discriminator": {"propertyName": "kind", "mapping": refs},
    }
    return {**made, name: either}


def _with_kind(kind: type[Checked], schema: Schema) -> Schema:
    return {
        **schema,
        "description": inspect.getdoc(kind),
        "properties": {"kind": {"const": kind.kind, "type": "string"}, **schema["properties"]},
        "required": ["kind", *schema.get("required", ())],
        "additionalProperties": False,
    }


def _plan() -> Schemas:
    """A plan: the way as msgspec knows it, its assignments field by field, the change and the strategy."""
    types = [WayInPlan, *OF_JOB.values(), *OF_OPERATORS.values()]
    refs, made = msgspec.json.schema_components(types, ref_template=REF)
    _, *values = refs
    fields = [(None, name) for name in OF_JOB] + [("operator", name) for name in OF_OPERATORS]
    step = made["StepInPlan"]["properties"]
    for part in ("first", "last"):
        step[part] = {"type": "array", "items": {"$ref": REF.format(name="Assignment")}}
    made["Assignment"] = {
        "oneOf": [
            _assignment(of, name, value) for (of, name), value in zip(fields, values, strict=True)
        ]
    }
    made["Together"] = _together()
    way = made.pop("WayInPlan")
    either = [{"$ref": REF.format(name=name)} for name in ("Change", "Together")]
    made["Plan"] = {
        **way,
        "title": "Plan",
        "description": "A plan, as POST /plan answers it.",
        "properties": {
            **way["properties"],
            "change": {"anyOf": either},
            "strategy": {"$ref": REF.format(name="Strategy")},
        },
        "required": [*way["required"], "change", "strategy"],
    }
    return made


def _together() -> Schema:
    return {
        "type": "object",
        "description": "Several changes that are one.",
        "properties": {
            "kind": {"const": "together", "type": "string"},
            "changes": {
                "type": "array",
                "items": {"$ref": REF.format(name="Change")},
                "minItems": 1,
                "maxItems": MOST_CHANGES,
            },
        },
        "required": ["kind", "changes"],
        "additionalProperties": False,
    }


def _assignment(of: str | None, name: str, value: Schema) -> Schema:
    operator = (
        {"type": "null"} if of is None else {"type": "string", "minLength": 1, "maxLength": 200}
    )
    return {
        "type": "array",
        "prefixItems": [operator, {"const": name, "type": "string"}, value],
        "minItems": 3,
        "maxItems": 3,
    }
