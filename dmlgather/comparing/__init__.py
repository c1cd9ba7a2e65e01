"""Comparison of devices, bit for bit: mismatches, their likely causes, and cases saved to run again."""
