"""What commands that talk to a running job over HTTP share."""
