"""What the user writes. Nothing here runs anything."""
