"""Apache Iceberg as a sink: every timestep is one commit of a table."""
