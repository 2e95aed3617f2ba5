"""Aggregate functions: implementations of `rechannel.kernels.logic.AggregateFunction`."""

from rechannel.kernels.aggregates.count import Count
from rechannel.kernels.aggregates.distinct import CountDistinct
from rechannel.kernels.aggregates.edges import First, Last
from rechannel.kernels.aggregates.extremes import Max, Min
from rechannel.kernels.aggregates.last_n import LastN
from rechannel.kernels.aggregates.messages import schema_error
from rechannel.kernels.aggregates.moments import Stddev, Variance
from rechannel.kernels.aggregates.sums import Mean, Sum

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
