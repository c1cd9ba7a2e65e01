"""Comparison of devices, bit for bit: mismatches, their likely causes, and saved cases."""
