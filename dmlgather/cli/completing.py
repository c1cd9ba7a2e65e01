"""The values that a shell completes, beside the names of subcommands and options. Each is looked up when a shell asks."""

from __future__ import annotations


def codes() -> list[str]:
    """The codes of findings."""
    from dmlgather.report.code_registry import CODES

    return list(CODES)


def operators() -> list[str]:
    """The operators, as `levels` takes them."""
    from dmlgather.directml import OPERATORS

    return [operator.name for operator in OPERATORS.values()]


def feature_levels() -> list[str]:
    """The feature levels."""
    from dmlgather.directml import FeatureLevel

    return list(map(str, FeatureLevel))


def formats() -> list[str]:
    """The formats of `check`."""
    from dmlgather.report.formats import FORMATS

    return list(FORMATS)


def libraries() -> list[str]:
    """The libraries that `translate` translates to."""
    from dmlgather.translation.writing import KINDS

    return list(KINDS)


def devices() -> list[str]:
    """The devices of `run`."""
    return ["auto", "cpu", "cuda", "reference"]
