"""What a stateful operator is to a task, and what is shipped to tasks as values."""
