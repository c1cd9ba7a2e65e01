"""`python -m conformance`: cases for DxDispatch on Windows, and what DirectML made of them; in a checkout."""

from collections.abc import Sequence

from dmlgather.cli import main


def _run(arguments: Sequence[str]) -> int:
    from conformance.command import run

    return run(arguments)


main(_run)
