"""Stateful operators, one folder per family. The tasks know them by the protocol alone."""
