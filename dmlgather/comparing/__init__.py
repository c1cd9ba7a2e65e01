"""Compare devices bit for bit; describe each mismatch, and what may be the cause; save the comparison as a case to run again, or as a Python script."""
