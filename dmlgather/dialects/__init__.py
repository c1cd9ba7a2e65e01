"""Gather and slice as other libraries define them: problems, shape rules, lowering to plans, export to descriptors."""
