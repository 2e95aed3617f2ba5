"""Imported before numpy: what numpy reads of the environment is set then, in workers that Spark's own daemon forks."""

import sys

from rechannel.engine.spark.simd import avoid_slow

if "numpy" not in sys.modules:
    avoid_slow()
