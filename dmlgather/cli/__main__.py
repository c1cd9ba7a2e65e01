"""Entry point of `python -m dmlgather.cli`, the `dmlgather` command."""

from dmlgather.cli import main

main()
