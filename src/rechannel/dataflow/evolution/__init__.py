"""One dataflow made of another: differences, changed logic, migrations of state and the way back."""
