"""Regression metrics: how far predictions are from labels."""
