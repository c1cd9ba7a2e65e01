"""Propagation of types, ranks, sizes and values through the nodes of a model; the table of operators."""
