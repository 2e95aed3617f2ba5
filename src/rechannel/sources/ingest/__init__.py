"""The ingest log: rows that plain producers posted, as a source."""
