"""Columns of files, frames and Arrow tables, and what they become: the arguments of ``add``."""
