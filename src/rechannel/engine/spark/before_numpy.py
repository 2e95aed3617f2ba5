"""Imported before numpy and pyarrow: what they and their allocators go by is set then, in every worker."""

import sys

from rechannel.engine.spark.freed_memory import keep
from rechannel.engine.spark.simd import avoid_slow

if "numpy" not in sys.modules:
    avoid_slow()
    keep()
