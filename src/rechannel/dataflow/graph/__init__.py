"""The dataflow as frozen values: nodes, names, schemas, rules. Runs nothing."""
