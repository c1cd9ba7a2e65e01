"""Calls, which are prepared and run: those of compiled operators, and of the eager functions of all dialects."""
