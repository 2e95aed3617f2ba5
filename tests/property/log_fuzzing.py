"""Profiles mutations of event logs in a process of little address space.

Arguments: the first seed, and how many. Writes a line per seed before it begins, and what came of
it after it: `ok`, `refused` with a message, or `failed` with a traceback.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from random import Random
from shutil import rmtree
from tempfile import mkdtemp

from tests.support.bounded import SPACE, limit, profiled, warm

WINDOWS = (None, None, 1.0, 0.01, 60.0)


def main(first: int, count: int) -> None:
    from tests.property.log_mutations import mutated

    came: Counter[str] = Counter()
    for seed in range(first, first + count):
        print(f"seed {seed}", flush=True)
        place = Path(mkdtemp(prefix="rechannel-fuzz-"))
        try:
            made = mutated(seed, place)
            found = profiled(made, window=Random(seed).choice(WINDOWS))
        finally:
            rmtree(place, ignore_errors=True)
        if "\n" in found.get("refused", ""):
            found = {"failed": f"a refusal of several lines: {found['refused']}"}
        came["failed" if "failed" in found else "refused" if "refused" in found else "ok"] += 1
        if "failed" in found:
            print(json.dumps({"seed": seed, **found}), flush=True)
    print(json.dumps({"came": came}), flush=True)


if __name__ == "__main__":
    warm()
    limit(SPACE)
    main(int(sys.argv[1]), int(sys.argv[2]))
