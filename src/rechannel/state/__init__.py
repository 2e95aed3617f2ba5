"""Operator state: segment files, the manifest that lists them, the merge plan, and stores."""
