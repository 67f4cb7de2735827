"""Ranking metrics: the quality of the order of the answers to a query."""
