"""What neighbours of DirectML mean by gather and slice: problems, shape rules, lowering to plans, export to descriptors."""
