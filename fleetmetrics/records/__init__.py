"""Records: one entry per sample, on their way from the workers that have them to the one answer."""
