"""What the values say: intervals, and slices with a verdict."""
