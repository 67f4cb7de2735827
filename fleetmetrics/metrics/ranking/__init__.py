"""Ranking metrics: the quality of the order of the documents of a query."""
