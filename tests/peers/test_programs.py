"""The programs of other systems that docs/from-*.md shows: they run, and print what ours print."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-peers" / "bin" / "python"

pytestmark = pytest.mark.peers


def programs(page: str, peer: str) -> list[tuple[str, str]]:
    """Each program of the peer, and the output that the page shows next."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    begins = f'```python title="{peer}"\n'
    found = re.findall(rf"{begins}(.*?)```.*?```text\n(.*?)```", text, re.DOTALL)
    assert found
    return found


CASES = [
    pytest.param(program, printed, id=f"{peer}-{n}")
    for peer in ("Bytewax", "Flink")
    for n, (program, printed) in enumerate(programs(f"from-{peer.lower()}", peer))
]


@pytest.mark.parametrize(("program", "printed"), CASES)
def test_it_prints_the_rows_that_ours_prints(program, printed, tmp_path):
    # PyFlink starts its workers by the name `python`.
    path = os.pathsep.join([str(PYTHON.parent), os.environ["PATH"]])
    done = subprocess.run(
        [PYTHON, "-W", "ignore", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == (printed, 0), done.stderr
