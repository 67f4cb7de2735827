"""States: named, typed arrays with a reduction; reading values into them, and state dicts."""
