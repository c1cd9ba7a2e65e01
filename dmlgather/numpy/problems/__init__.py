"""NumPy: index expressions."""
