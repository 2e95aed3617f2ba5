"""What Spark forks Python workers from."""

import subprocess
import sys

LOOK = """
import sys
from importlib import import_module
from rechannel.engine.spark.daemon import NEEDED
for name in NEEDED:
    import_module(name)
wanted = ["pyspark.worker", "pyarrow.compute", "rechannel.kernels.front", "rechannel.kernels.stateful"]
wanted += ["rechannel.kernels.ahead", "rechannel.kernels.windows", "rechannel.state.local"]
print(sorted(set(wanted) - set(sys.modules)), "polars" in sys.modules, file=sys.stderr)
"""


def test_all_that_tasks_need_is_imported_before_the_fork_and_nothing_is_printed():
    """It says its port on standard output; polars keeps threads, which do not survive a fork."""
    found = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)
    assert found.stdout == ""
    assert found.stderr.strip() == "[] False"
