"""`python -m benchmarks`: the comparison suite, in a checkout."""

from dmlgather.cli import main

main("benchmarks.command")
