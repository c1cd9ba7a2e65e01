"""Compare devices bit for bit; describe each mismatch; save the comparison as a case to run again, or as a Python script."""
