"""What accumulates, exchanges once and evaluates: the bases of metrics, and collections of them."""
