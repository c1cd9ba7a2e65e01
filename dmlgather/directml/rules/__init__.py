"""The rules: one function per rule, one row per function."""
