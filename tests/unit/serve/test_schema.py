"""What the OpenAPI document says is so: requests made from it, right ones and wrong ones, and their answers."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.support.asking import bearer

schemathesis = pytest.importorskip("schemathesis")

OPERATIONS = (
    "GET /",
    "GET /livez",
    "GET /readyz",
    "GET /status",
    "GET /configuration",
    "GET /sinks",
    "GET /progress",
    "GET /reconfigurations",
    "GET /reconfigurations/{id}",
    "GET /dataflow",
    "GET /bins",
    "GET /flow",
    "GET /advice",
    "GET /metrics",
    "POST /plan",
    "POST /reconfigure",
    "POST /reconfigurations/{id}/abort",
    "POST /deploy/plan",
    "POST /deploy",
    "GET /acts",
    "GET /savepoints",
    "POST /savepoints",
    "POST /savepoints/{name}/drop",
    "GET /controllers",
    "POST /controllers",
    "GET /controllers/{name}",
    "POST /controllers/{name}/pause",
    "POST /controllers/{name}/resume",
    "POST /controllers/{name}/trigger",
    "POST /controllers/{name}/remove",
)
TRIES = [
    (operation, mode)
    for operation in OPERATIONS
    for mode in schemathesis.GenerationMode
    # A probe and the page need no token and have no parameter: nothing about them can be wrong.
    if not (operation.endswith(("z", " /")) and mode is schemathesis.GenerationMode.NEGATIVE)
]
schemathesis.checks.load_all_checks()
STRICTER = schemathesis.checks.CHECKS.get_by_names(["positive_data_acceptance"])


@pytest.fixture
def document(server):
    return schemathesis.openapi.from_url(f"{server.url}/openapi.json", headers=bearer(server))


def test_every_operation_is_tried(document):
    assert {found.ok().label for found in document.get_all_operations()} == set(OPERATIONS)


@pytest.mark.parametrize(("operation", "mode"), TRIES)
def test_every_operation_answers_as_the_document_says(
    clicks, server, document, operation, mode, thorough
):
    # Fields are strict beyond what JSON Schema can say: 3.0 is an integer there, and no number of tasks here.
    beside = STRICTER if "POST" in operation else []
    some = settings(
        max_examples=500 if thorough else 4,
        deadline=None,
        derandomize=not thorough,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    method, _, path = operation.partition(" ")
    asked = document[path][method]
    answered = set()

    @some
    @given(case=asked.as_strategy(generation_mode=mode))
    def ask(case):
        answer = case.call_and_validate(headers=bearer(server), timeout=60, excluded_checks=beside)
        answered.add(answer.status_code)
        assert clicks.running.is_active

    ask()
    assert answered
    assert max(answered) < 500
    clicks.push([("zoe", 1)])
    assert clicks.running.is_active
