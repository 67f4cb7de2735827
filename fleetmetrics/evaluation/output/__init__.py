"""What a reader sees: conditions, printed tables, and files."""
