"""Streams of predictions, such as training and serving, compared row by row."""
