#!/usr/bin/env python3
"""Install a wheel into an empty environment and run the README's quickstart from it.

    scripts/check_wheel.py dist/rechannel-0.2.0-py3-none-any.whl

Exit status: 0 the program prints what the README says, 1 it does not.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
# What would let the program find the tree, or another interpreter, instead of the wheel.
OUTSIDE = ("PYTHONPATH", "PYTHONHOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV")


def quickstart() -> tuple[str, str]:
    """Return the README's program, and the output that follows "It prints:"."""
    text = README.read_text(encoding="utf-8").partition("## Quickstart")[2]
    program = text.partition("```python\n")[2].partition("```")[0]
    printed = text.partition("It prints:")[2].partition("```\n")[2].partition("```")[0]
    return program, printed


def run(python: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the quickstart as a newcomer would: a file in a folder of its own."""
    (folder / "quickstart.py").write_text(quickstart()[0], encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name not in OUTSIDE}
    return subprocess.run(
        [python, "quickstart.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def main(wheel: Path) -> int:
    """Check a wheel, and return the exit status."""
    with tempfile.TemporaryDirectory(prefix="rechannel-wheel-") as name:
        folder = Path(name)
        venv.create(folder / "environment", with_pip=True)
        python = folder / "environment" / "bin" / "python"
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, str(wheel.resolve())], check=True)
        result = run(python, folder)
    promised = quickstart()[1].strip()
    if result.returncode != 0 or result.stdout.strip() != promised:
        print(result.stdout, result.stderr[-3000:], f"The README says:\n{promised}", sep="\n")
        return 1
    print(f"{wheel.name}: the quickstart prints what the README says")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
