"""Gather and slice as other libraries define them: operator calls, their shape rules, and their translation to DirectML."""
