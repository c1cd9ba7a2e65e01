"""`python -m benchmarks`: the comparison suite, in a checkout."""

from collections.abc import Sequence

from dmlgather.cli import main


def _run(arguments: Sequence[str]) -> int:
    from benchmarks.command import run

    return run(arguments)


main(_run)
