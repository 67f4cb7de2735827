"""Records: one entry per sample, on their way from the workers to the value."""
