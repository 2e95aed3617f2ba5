"""How much parallelism a dataflow needs: DS2's model, what it means on Spark, policies, and a simulator."""
