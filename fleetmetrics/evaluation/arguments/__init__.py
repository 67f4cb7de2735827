"""The arguments of an evaluation: each declared once, and their checks."""
