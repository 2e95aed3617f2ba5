"""A dataset: Parquet files that a manifest names, written exactly once and compacted while the stream runs."""
