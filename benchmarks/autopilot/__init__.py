"""A Yahoo-like stream that meets what it was not made for, with Autopilot and without."""
