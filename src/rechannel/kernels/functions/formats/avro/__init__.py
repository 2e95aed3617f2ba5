"""Records of Apache Avro."""
