"""What spark-submit was given comes first, without a JVM."""

from __future__ import annotations

import pytest

from rechannel.engine.spark.session.submitted import TOO_LATE, beside_given, is_submitted
from rechannel.errors import SessionError

DEFAULTS = {"spark.app.name": "rechannel", "spark.master": "yarn", "spark.ui.enabled": "false"}


def test_the_environment_tells() -> None:
    assert is_submitted({"PYSPARK_GATEWAY_PORT": "4711"})
    assert not is_submitted({})


def test_what_was_given_is_not_set_again() -> None:
    given = {"spark.master": "yarn", "spark.app.name": "orders", "spark.ui.enabled": "true"}
    assert beside_given(DEFAULTS, {"spark.executor.cores": "2"}, given, "main.py") == {
        "spark.executor.cores": "2"
    }


def test_an_application_without_a_name_gets_that_of_the_session() -> None:
    given = {"spark.app.name": "launcher.py"}
    made = beside_given(DEFAULTS, {}, given, "/opt/rechannel/cli/launcher.py")
    assert made["spark.app.name"] == "rechannel"


def test_the_same_twice_is_no_contradiction() -> None:
    given = {"spark.executor.cores": "2"}
    assert beside_given({}, {"spark.executor.cores": "2"}, given, "main.py") == {}


def test_a_contradiction_is_refused_with_both_sides() -> None:
    asked = {"spark.master": "local[2,4]", "spark.executor.memory": "1g"}
    given = {"spark.master": "yarn", "spark.executor.memory": "2g"}
    with pytest.raises(SessionError) as caught:
        beside_given({}, asked, given, "main.py")
    said = str(caught.value)
    assert "spark.master is 'yarn' there and 'local[2,4]' in the program" in said
    assert "spark.executor.memory is '2g' there and '1g' in the program" in said
    assert "Give it to spark-submit" in said


@pytest.mark.parametrize("key", TOO_LATE)
def test_what_the_jvm_needed_at_its_start_is_refused(key: str) -> None:
    with pytest.raises(SessionError, match="comes too late"):
        beside_given({}, {key: "4g"}, {}, "main.py")
    assert beside_given({}, {key: "4g"}, {key: "4g"}, "main.py") == {}
