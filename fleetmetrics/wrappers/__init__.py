"""Metrics around metrics: by slice, over a window, and with an interval from resampling."""
