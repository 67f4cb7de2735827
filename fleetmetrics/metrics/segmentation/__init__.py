"""Metrics of segmented images."""
