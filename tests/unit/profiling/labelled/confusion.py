"""What a diagnosis says of the labelled logs, compared with their labels and with what mending has gained.

The gain that was measured is the time that the mended twin saved, as a share of the application's length. Both are
counted from the first job or SQL execution on, since the start of Spark varies from run to run by more than a second.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rechannel.profiling.model.finding import Finding
from rechannel.profiling.reading import analyse_file
from rechannel.profiling.spark.event_files import log_lines
from tests.unit.profiling.labelled.held_out.first_seen import FIRST_SEEN
from tests.unit.profiling.labelled.held_out.labels import HELD_OUT
from tests.unit.profiling.labelled.labels import HEALTHY, LABELS, Label

RIGHT, ACCEPTED, WRONG = "right", "accepted", "WRONG"
TOLERANCE = 0.25
"""By how much of the gain that was measured a prediction may be wrong."""
_EVENT = b'{"Event":"'
_STARTS = {
    b"SparkListenerJobStart": "Submission Time",
    b"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart": "time",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """Seconds that an application took."""

    whole: float
    """From its start to its end."""
    working: float
    """From its first job or SQL execution to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a label."""

    label: Label
    found: str
    """Cause of the first finding, which has weight; "" if none has."""
    predicted: float | None
    """Gain of the finding with the cause of the label, as a share of the application's length."""
    measured: float | None
    """The same, as the mended twin has it; None without a twin."""

    @property
    def right(self) -> bool:
        """Whether the first finding names the cause; of a healthy application, whether none has weight."""
        return self.found == self.label.cause

    @property
    def close(self) -> bool:
        """Whether the predicted gain is within the tolerance of the measured one."""
        if self.predicted is None or self.measured is None:
            return False
        return abs(self.predicted - self.measured) <= TOLERANCE * self.measured


def length_of(path: Path) -> Length:
    """Return how long an application took. Raises KeyError if its log has no end or no job."""
    times: dict[str, int] = {}
    for line in log_lines(path):
        name = line[len(_EVENT) : line.find(b'"', len(_EVENT))]
        if name == b"SparkListenerApplicationStart":
            times["start"] = json.loads(line)["Timestamp"]
        elif name == b"SparkListenerApplicationEnd":
            times["end"] = json.loads(line)["Timestamp"]
        elif name in _STARTS and "work" not in times:
            times["work"] = json.loads(line)[_STARTS[name]]
    return Length(
        whole=(times["end"] - times["start"]) / 1_000,
        working=(times["end"] - times["work"]) / 1_000,
    )


def gained(before: Length, mended: Length) -> float:
    """Return the share of an application's length that mending its cause has saved."""
    return (before.working - mended.working) / before.whole


def judged(label: Label, findings: Sequence[Finding], measured: float | None) -> Outcome:
    """Compare what was found, the largest gain first, with a label."""
    named = next((each for each in findings if each.cause == label.cause), None)
    return Outcome(
        label=label,
        found=findings[0].cause if findings and findings[0].weighty else "",
        predicted=named.gain if named else None,
        measured=measured,
    )


def outcome(label: Label) -> Outcome:
    """Diagnose the log of a label."""
    measured = None
    if label.mended is not None:
        measured = gained(length_of(label.log()), length_of(label.log(mended=True)))
    return judged(label, analyse_file(label.log(), strict=True).findings, measured)


def table(outcomes: Iterable[Outcome]) -> list[str]:
    """Return the lines of a confusion table and its sums."""
    done = list(outcomes)
    lines = [_row("label", "cause", "first finding", "predicted", "measured", "")]
    lines += [
        _row(
            each.label.name,
            each.label.cause or "-",
            each.found or "-",
            _percent(each.predicted),
            _percent(each.measured),
            RIGHT if each.right else WRONG,
        )
        for each in done
    ]
    ill = [each for each in done if each.label.cause != HEALTHY]
    well = [each for each in done if each.label.cause == HEALTHY]
    twins = [each for each in ill if each.measured is not None]
    lines += [
        "",
        f"first finding right: {sum(each.right for each in ill)} of {len(ill)}",
        f"healthy applications with a finding of weight: {sum(not each.right for each in well)} of {len(well)}",
        f"gain within {TOLERANCE:.0%} of the measured one: {sum(each.close for each in twins)} of {len(twins)}",
    ]
    return lines


def held_out_table(found: Sequence[tuple[Label, str]]) -> list[str]:
    """Return the lines of a table of first findings, when first seen and today, and its sums.

    found: labels with today's first finding; "" if none has weight.
    """
    lines = [_held_out_row("label", "cause", "first seen", "", "today", "")]
    lines += [
        _held_out_row(
            label.name,
            label.cause or "-",
            FIRST_SEEN[label.name] or "-",
            verdict(label, FIRST_SEEN[label.name]),
            today or "-",
            verdict(label, today),
        )
        for label, today in found
    ]
    sums = [
        (when, Counter(verdict(label, cause) for label, cause in causes))
        for when, causes in (
            ("first seen", [(label, FIRST_SEEN[label.name]) for label, _ in found]),
            ("today", found),
        )
    ]
    lines.append("")
    lines += [
        f"{when}: {counts[RIGHT]} right, {counts[ACCEPTED]} accepted, {counts[WRONG]} wrong, of {len(found)}"
        for when, counts in sums
    ]
    return lines


def verdict(label: Label, found: str) -> str:
    """Return how a first finding fits a label."""
    if found == label.cause:
        return RIGHT
    return ACCEPTED if found in label.accepted else WRONG


def _held_out_row(label: str, cause: str, seen: str, was: str, today: str, now: str) -> str:
    return f"{label:26}{cause:21}{seen:21}{was:10}{today:21}{now}".rstrip()


def _row(label: str, cause: str, found: str, predicted: str, measured: str, verdict: str) -> str:
    return f"{label:28}{cause:22}{found:22}{predicted:>9} {measured:>9}  {verdict}".rstrip()


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def main() -> None:
    """Print both tables."""
    print("\n".join(table(outcome(label) for label in LABELS)))
    print("\nheld out: first findings when first seen, and today\n")
    print("\n".join(held_out_table([(label, outcome(label).found) for label in HELD_OUT])))


if __name__ == "__main__":
    main()
