"""Ranking metrics: how good the order is in which the answers to a query are given."""

from fleetmetrics.metrics.ranking.at_k import FallOutAtK, FBetaAtK, HitRate, PrecisionAtK, RecallAtK, RPrecision
from fleetmetrics.metrics.ranking.order import DCG, MAP, MRR, NDCG

__all__ = [
    "DCG",
    "MAP",
    "MRR",
    "NDCG",
    "FBetaAtK",
    "FallOutAtK",
    "HitRate",
    "PrecisionAtK",
    "RPrecision",
    "RecallAtK",
]
