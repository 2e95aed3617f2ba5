"""Advice on how much a stream needs: a running one, one that has left its state directory, and files of others."""
