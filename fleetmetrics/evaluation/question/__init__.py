"""The question: what is asked of each side, and the metrics that answer it, with what a verdict needs."""
