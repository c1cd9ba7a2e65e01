"""Sizes that a model leaves open: expressions of symbols, conditions on them, and numbers that meet these."""
