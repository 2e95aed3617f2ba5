"""What each kind of entry does to the state of the journal. Pure."""
