"""What identifies the logic of a node across processes, versions and restarts."""
