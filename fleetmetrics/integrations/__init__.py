"""Faces to other people's loops and tools; each module imports what it is named after."""
