"""What stands out in an application of Spark, why, what to change, and what that would gain."""
