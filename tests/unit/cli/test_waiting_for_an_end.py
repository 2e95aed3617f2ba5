"""`--wait`: a lost answer does not end it."""

from __future__ import annotations

from typing import Any

import pytest

from rechannel.cli.jobs import reconfigure
from rechannel.errors import NotReadyError

DONE = {"open": False, "phase": "done"}


class Job:
    """A client whose answers are lost, in part."""

    def __init__(self, *answers: dict[str, Any] | None) -> None:
        self.answers = list(answers)

    def get(self, *_: str) -> dict[str, Any]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            raise NotReadyError("it has not answered in time")
        return answer


def test_what_is_not_answered_is_asked_again():
    job: Any = Job({"open": True}, None, None, DONE)
    assert reconfigure.wait_for_end(job, "r1", 60.0) == DONE


@pytest.mark.parametrize(("most", "lost"), [(0.2, 60.0), (60.0, 0.2)])
def test_a_job_that_answers_no_more_is_not_asked_for_ever(monkeypatch, most, lost):
    monkeypatch.setattr(reconfigure, "LOST_SECONDS", lost)
    job: Any = Job({"open": True}, None)
    with pytest.raises(NotReadyError):
        reconfigure.wait_for_end(job, "r1", most)
