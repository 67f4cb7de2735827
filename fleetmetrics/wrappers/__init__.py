"""Metrics around metrics: by slice, over a window, and with a confidence interval."""
