"""What everything stands on: checks of arguments, settings, warnings, logs, optional libraries, foreign tensors."""
