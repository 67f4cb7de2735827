"""Which samples count: what a sampler deals to each rank, and what of it is padding."""
