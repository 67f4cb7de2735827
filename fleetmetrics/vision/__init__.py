"""Metrics of pictures, which keep records of any form, such as features and boxes, and compute from all on rank 0."""
