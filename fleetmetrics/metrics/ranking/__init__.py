"""Ranking metrics: how good the order is in which the answers to a query are given."""
