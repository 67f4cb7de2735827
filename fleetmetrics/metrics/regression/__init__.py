"""Regression metrics: the distance between predictions and labels."""
