"""The sides: what was read of files, frames, saved states or all workers, and the match of both sides' rows."""
