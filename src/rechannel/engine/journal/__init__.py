"""The durable, totally ordered record of a job, and who may write it."""
