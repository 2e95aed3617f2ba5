"""Apache Kafka as a source: offsets per partition in the journal, records read by tasks themselves."""
