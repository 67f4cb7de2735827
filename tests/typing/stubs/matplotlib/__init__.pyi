# The part of matplotlib that the package's types name: .venv-dev has no matplotlib, whose own hints say the same.
