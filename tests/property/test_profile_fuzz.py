"""Whatever becomes of an event log, it is read or refused in one line, in bounded memory and time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.property.log_mutations import lines_of, mutated, places
from tests.support.bounded import ROOT, THREADS

MANY, PIECE = 10_000, 250


def fuzzed(first: int, count: int) -> tuple[Counter[str], list[str]]:
    """What came of mutations, and what failed. A process that dies is told with its last seed."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.property.log_fuzzing", str(first), str(count)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **THREADS, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        check=False,
    )
    told = done.stdout.splitlines()
    failed = [line for line in told if line.startswith('{"seed"')]
    if done.returncode:
        seeds = [line for line in told if line.startswith("seed ")]
        last = seeds[-1] if seeds else "before the first seed"
        failed.append(f"exit code {done.returncode} at {last}: {done.stderr[-3_000:]}")
        return Counter(), failed
    return Counter(json.loads(told[-1])["came"]), failed


def test_mutations_are_repeatable_and_differ(tmp_path):
    texts = []
    for number, seed in enumerate((1, 1, 2)):
        place = tmp_path / str(number)
        place.mkdir()
        made = mutated(seed, place)
        files = [made] if made.is_file() else sorted(made.iterdir())
        texts.append([file.read_bytes() for file in files])
    assert texts[0] == texts[1] != texts[2]
    plain = [b"".join(lines_of(place)) for place in places()]
    assert all(text not in plain for text in (b"".join(each) for each in texts))


def test_a_few_mutations():
    came, failed = fuzzed(0, 8)
    assert failed == []
    assert came["ok"] > 4


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, MANY, PIECE))
def test_many_mutations(first):
    came, failed = fuzzed(first, PIECE)
    assert failed == []
    assert came["ok"] > PIECE / 2
    assert came["refused"] > 0
