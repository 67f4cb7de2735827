"""Classification metrics: binary, of several classes, and of several labels at once."""
