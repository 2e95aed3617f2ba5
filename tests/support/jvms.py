"""How JVMs of tests run."""

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""They run little code often: compiling it once more with the optimising compiler, and collecting garbage on several
threads, takes them about as long as everything else that they do."""
