"""Windows: tumbling, sliding, session and count windows, and functions of whole windows."""
