"""`python -m dmlgather.cli` is the `dmlgather` command."""

from dmlgather.cli import main

main()
