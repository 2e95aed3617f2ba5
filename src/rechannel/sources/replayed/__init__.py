"""Dead letters that were asked to be tried again: a log of them in the state directory, read as a source."""
