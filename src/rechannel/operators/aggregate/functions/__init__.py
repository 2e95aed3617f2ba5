"""Aggregate functions: implementations of `rechannel.kernels.protocol.logic.AggregateFunction`."""

from rechannel.operators.aggregate.functions.count import Count
from rechannel.operators.aggregate.functions.distinct import CountDistinct
from rechannel.operators.aggregate.functions.edges import First, Last
from rechannel.operators.aggregate.functions.extremes import Max, Min
from rechannel.operators.aggregate.functions.last_n import LastN
from rechannel.operators.aggregate.functions.messages import schema_error
from rechannel.operators.aggregate.functions.moments import Stddev, Variance
from rechannel.operators.aggregate.functions.sums import Mean, Sum

__all__ = [
    "Count",
    "CountDistinct",
    "First",
    "Last",
    "LastN",
    "Max",
    "Mean",
    "Min",
    "Stddev",
    "Sum",
    "Variance",
    "schema_error",
]
