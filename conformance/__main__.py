"""The command `python -m conformance`, which needs a checkout."""

from dmlgather.cli import main

main("conformance.command")
