"""`python -m conformance`: cases for DxDispatch on Windows, and what DirectML made of them; in a checkout."""

from dmlgather.cli import main

main("conformance.command")
