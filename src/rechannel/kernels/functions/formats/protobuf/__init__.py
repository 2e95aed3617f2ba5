"""Messages of Protocol Buffers."""
