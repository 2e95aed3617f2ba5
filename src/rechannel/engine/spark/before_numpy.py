"""Imported before numpy: what numpy reads of the environment is set then, in every worker."""

import sys

from rechannel.engine.spark.simd import avoid_slow

if "numpy" not in sys.modules:
    avoid_slow()
