"""The rules that a descriptor must obey."""
