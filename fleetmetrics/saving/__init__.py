"""Contents of metrics outside of a process: checkpoints of a job, copies of a model, partial results."""
