"""A wide and deep network in a static program.

Cheng et al., "Wide & Deep Learning for Recommender Systems", 2016, https://arxiv.org/abs/1606.07792: a linear
model over categories and their crosses (wide) and a multilayer perceptron over embeddings (deep) share one logit.
"""

from __future__ import annotations

# Paddle 2.6 has a zlib of its own; Python's crashes if it is loaded after that, as by an import of SciPy.
import zlib  # noqa: F401
from dataclasses import dataclass

import paddle
from paddle import ParamAttr
from paddle.nn import functional
from paddle.nn.initializer import Uniform

from reader import TABLE_ROWS, Layout

TABLES = {"wide_table": 1, "deep_table": 8}
"""The embedding tables and the length of their rows."""
HIDDEN = (64, 32)
"""The widths of the deep part's hidden layers."""


@dataclass(frozen=True)
class Network:
    """The variables of a network, for code that trains it, evaluates it or adds metrics to it."""

    inputs: dict[str, paddle.static.Variable]
    label: paddle.static.Variable
    prediction: paddle.static.Variable
    loss: paddle.static.Variable


def build(layout: Layout, on_servers: bool = True) -> Network:
    """Add the network to the current default programs.

    Args:
        layout: the columns of the data.
        on_servers: keep the embedding tables on parameter servers, where a row comes into being when it is first
            asked for. False keeps whole tables in this process, which needs no servers.

    Returns:
        The inputs `dense`, `wide` and `deep` by name, the label, the prediction (a probability, [n, 1] float32)
        and the mean log loss of the batch.
    """
    dense = paddle.static.data("dense", [None, layout.dense], "float32")
    wide = paddle.static.data("wide", [None, layout.wide], "int64")
    deep = paddle.static.data("deep", [None, layout.deep], "int64")
    label = label_input()

    logit = _wide_logit(dense, wide, layout, on_servers) + _deep_logit(dense, deep, layout, on_servers)
    loss = functional.binary_cross_entropy_with_logits(logit, paddle.cast(label, "float32"))
    inputs = {"dense": dense, "wide": wide, "deep": deep}
    return Network(inputs, label, functional.sigmoid(logit), loss)


def label_input() -> paddle.static.Variable:
    """The label as an input of the current default program: 0 or 1, [n, 1] int64."""
    return paddle.static.data("label", [None, 1], "int64")


def forward_program(network: Network) -> paddle.static.Program:
    """A copy of the network's program that only predicts, with the parameters of the original.

    To be called after `minimize`, whose copy of the program asks the servers for embeddings.
    """
    program = network.loss.block.program.clone(for_test=True)
    # `clone(for_test=True)` leaves the operations in place that send gradients to the servers.
    return program._prune_with_input(list(network.inputs), [program.global_block().var(network.prediction.name)])


def _wide_logit(
    dense: paddle.static.Variable, ids: paddle.static.Variable, layout: Layout, on_servers: bool
) -> paddle.static.Variable:
    weights = _embedding("wide_table", ids, layout.wide, on_servers)
    return paddle.sum(weights, axis=1, keepdim=True) + paddle.static.nn.fc(dense, 1, name="wide_dense")


def _deep_logit(
    dense: paddle.static.Variable, ids: paddle.static.Variable, layout: Layout, on_servers: bool
) -> paddle.static.Variable:
    hidden = paddle.concat([dense, _embedding("deep_table", ids, layout.deep, on_servers)], axis=1)
    for i, width in enumerate(HIDDEN):
        hidden = paddle.static.nn.fc(hidden, width, activation="relu", name=f"deep_{i}")
    return paddle.static.nn.fc(hidden, 1, name="deep_logit")


def _embedding(table: str, ids: paddle.static.Variable, columns: int, on_servers: bool) -> paddle.static.Variable:
    """The rows of `columns` ids side by side: [n, columns * row length]."""
    size = [TABLE_ROWS, TABLES[table]]
    attribute = ParamAttr(name=table, initializer=Uniform(-0.01, 0.01))
    # The servers' lookup takes a column of ids only.
    column = paddle.reshape(ids, [-1, 1])
    if on_servers:
        rows = paddle.static.nn.sparse_embedding(column, size, param_attr=attribute)
    else:
        rows = paddle.static.nn.embedding(column, size, is_sparse=True, param_attr=attribute)
    return paddle.reshape(rows, [-1, columns * TABLES[table]])
