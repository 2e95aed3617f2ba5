"""Carries out what `rechannel.reconfigure` decides: prepares changes, switches programs, keeps their history."""
