"""Entry point of `python -m benchmarks`."""

from dmlgather.cli import main

main("benchmarks.command")
