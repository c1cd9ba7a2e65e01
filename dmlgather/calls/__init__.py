"""Preparing and running calls: compiled operators, and the eager functions of all dialects."""
