"""Compare devices bit for bit; describe each mismatch, and what may be its cause; save the comparison as a case to run again."""
