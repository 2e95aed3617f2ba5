"""Workers sort with the instructions that are fast on their processor."""

import os
import subprocess
import sys

import numpy
import pytest

from rechannel.engine.spark.simd import (
    AVX512,
    EARLIER,
    VARIABLE,
    avoid_slow,
    features,
    is_slow,
)

ZEN_4 = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 17
model name\t: AMD EPYC 9R14

processor\t: 1
vendor_id\t: AuthenticAMD
cpu family\t: 25
"""


@pytest.mark.parametrize(
    ("processors", "slow"),
    [
        (ZEN_4, True),
        (ZEN_4.replace("25", "26"), False),
        (ZEN_4.replace("AuthenticAMD", "GenuineIntel"), False),
        ("processor\t: 0\nBogoMIPS\t: 243.75\n", False),
        ("", False),
    ],
)
def test_a_slow_processor_is_known_by_its_family(processors, slow):
    assert is_slow(processors) is slow


def test_what_a_user_has_set_stays(tmp_path, monkeypatch):
    told = tmp_path / "cpuinfo"
    told.write_text(ZEN_4)
    monkeypatch.setenv(VARIABLE, "restored at the end")
    monkeypatch.delenv(VARIABLE)
    avoid_slow(tmp_path / "missing")
    assert VARIABLE not in os.environ
    avoid_slow(told)
    assert os.environ[VARIABLE] == features(numpy.__version__)
    monkeypatch.setenv(VARIABLE, "")
    avoid_slow(told)
    assert os.environ[VARIABLE] == ""


WORKER = """
import sys
import rechannel.engine.spark.daemon
import pyspark.worker
from rechannel.engine.spark import simd
called = []
simd.avoid_slow = lambda: called.append("numpy" in sys.modules)
import rechannel.engine.spark.calls
print(called, "numpy" in sys.modules)
"""


def test_it_comes_before_numpy_which_takes_the_names_without_a_word():
    found = subprocess.run(
        [sys.executable, "-c", WORKER], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[False] True"
    environment = {**os.environ, VARIABLE: features(numpy.__version__)}
    imported = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import numpy"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert (imported.stdout, imported.stderr) == ("", "")


def test_features_are_called_what_numpy_calls_them():
    assert features("2.4.6") == features("3.0.0rc1") == AVX512
    assert features("2.3.5") == EARLIER
