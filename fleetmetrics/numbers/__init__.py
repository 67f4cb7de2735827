"""Exact merges: sums that give the same bits in any order, extremes, and moments."""
