"""What follows through the nodes of a model: types, ranks, sizes and values; the table of operators."""
