"""Pictures of a dataflow: text and SVG."""
