"""HTTP ingest: rows are durable before they are acknowledged. Needs the extra `serve`."""
