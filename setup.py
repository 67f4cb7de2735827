"""For tools that still call it: everything about the package is in pyproject.toml."""

from setuptools import setup

setup()
