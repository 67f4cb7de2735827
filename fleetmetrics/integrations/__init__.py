"""Adapters to the loops and tools of others; each module imports the library that it is named after."""
