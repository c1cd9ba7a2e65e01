"""Unknown sizes of a model: expressions of symbols, conditions on them, and numbers that meet the conditions."""
