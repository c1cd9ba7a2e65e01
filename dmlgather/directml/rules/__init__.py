"""The rules that a descriptor must obey: a function for each rule, and a table of these functions."""
