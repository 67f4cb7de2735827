"""Calibration: whether predicted probabilities match observed rates."""
