"""What a dataflow means to the engine: stages, versions, state schema versions, what a restart may change. Pure."""
