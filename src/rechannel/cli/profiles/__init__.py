"""What `rechannel profile` takes and shows."""
