"""`python -m dmlgather` is the `dmlgather` command."""

from dmlgather.cli import main

main()
