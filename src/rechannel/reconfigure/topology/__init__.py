"""The meta topology of a change: old, new and state-dependency edges, pruned."""
