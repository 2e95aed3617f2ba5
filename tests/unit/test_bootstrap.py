"""What the set-up script says on a machine that lacks something; it never gets to install here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BOOTSTRAP = Path(__file__).parents[2] / "scripts" / "bootstrap"


def script(file: Path, body: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    file.chmod(0o755)
    return file


def bootstrap(tmp_path: Path, *, python: str, java_says: str) -> str:
    """What the script prints when ``java -version`` prints this; at least one must be lacking."""
    script(tmp_path / "java" / "bin" / "java", f"cat >&2 <<'END'\n{java_says}\nEND")
    environment = tmp_path / "environment"
    done = subprocess.run(
        [BOOTSTRAP, environment, "test"],
        env={**os.environ, "PYTHON": python, "JAVA_HOME": str(tmp_path / "java")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert not environment.exists()
    return done.stderr


@pytest.mark.parametrize(
    ("version", "major"),
    [
        ('java version "1.8.0_382"', "8"),
        ('openjdk version "11.0.20" 2023-07-18', "11"),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "16" 2021-03-16', "16"),
    ],
)
def test_an_old_java_is_named_with_its_version(tmp_path, version, major):
    said = bootstrap(tmp_path, python=sys.executable, java_says=version)
    assert f"is version {major}, and Spark needs 17 or newer" in said
    assert "Python:" not in said


@pytest.mark.parametrize("version", ["17.0.15", "21.0.2", "25-ea"])
def test_a_new_java_is_not_complained_about(tmp_path, version):
    said = bootstrap(tmp_path, python="no-such-python", java_says=f'openjdk version "{version}"')
    assert "there is no 'no-such-python' on the PATH" in said
    assert "Java:" not in said


def test_an_old_python_is_named_with_its_version(tmp_path):
    old = script(
        tmp_path / "python", 'case "$*" in *version_info*) exit 1;; *--version*) echo 3.9.1;; esac'
    )
    said = bootstrap(tmp_path, python=str(old), java_says='openjdk version "17.0.1"')
    assert f"'{old}' is 3.9.1, and Rechannel needs 3.11 or newer" in said


def test_everything_that_is_missing_is_named_at_once(tmp_path):
    said = bootstrap(tmp_path, python="no-such-python", java_says="nothing of use")
    assert "Python:" in said
    assert "Java:" in said
    assert "Then run the same command again" in said


def test_wrong_use_is_table_key_from_a_lacking_machine():
    done = subprocess.run([BOOTSTRAP], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage:" in done.stderr


@pytest.mark.parametrize("has_pip", [True, False])
def test_a_set_up_that_was_interrupted_begins_again(tmp_path, has_pip):
    environment = tmp_path / "environment"
    pip = "exit 0" if has_pip else "exit 1"
    script(environment / "bin" / "python", f'case "$*" in *pip*) {pip};; esac')
    made = f'mkdir -p "{environment}/bin"; echo >"{tmp_path}/cleared"'
    whole = (
        f'printf "#!/bin/sh\\n" >"{environment}/bin/python"; chmod +x "{environment}/bin/python"'
    )
    python = script(tmp_path / "python", f'case "$*" in *--clear*) {made}; {whole};; esac')
    script(tmp_path / "java" / "bin" / "java", "echo 'openjdk version \"17.0.1\"' >&2")
    done = subprocess.run(
        [BOOTSTRAP, environment, "test"],
        env={**os.environ, "PYTHON": str(python), "JAVA_HOME": str(tmp_path / "java")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "cleared").exists() is not has_pip
