"""Calls of compiled operators, and of the eager functions of all dialects."""
