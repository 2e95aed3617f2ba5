"""Files that are open, mapped or kept on a host."""
