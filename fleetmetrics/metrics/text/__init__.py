"""Metrics of texts and of sequences of tags."""
