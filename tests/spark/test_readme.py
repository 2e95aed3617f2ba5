"""The README's example, copied into a file and run as a newcomer would, prints what the README says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.check_wheel import quickstart

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.spark
def test_quickstart_prints_what_the_readme_says(tmp_path: Path) -> None:
    program, printed = quickstart()
    (tmp_path / "quickstart.py").write_text(program, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    environment.pop("PYSPARK_PYTHON", None)
    result = subprocess.run(
        [sys.executable, "quickstart.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout.strip() == printed.strip()
    published = sorted(path.name for path in (tmp_path / "out/users").glob("timestep=*"))
    assert published == [f"timestep={number:012d}" for number in range(1, 11)]
