"""Dead letters once more: which there are, which are to be tried again, and the input that they become."""
