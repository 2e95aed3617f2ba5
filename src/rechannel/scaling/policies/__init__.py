"""Policies: what they see, what they advise, and how often they may."""
