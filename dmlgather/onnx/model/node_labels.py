"""How messages name nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import NodeProto


def label(node: NodeProto) -> str:
    """The name of a node in messages."""
    return f"{node.op_type} node {node.name!r}" if node.name else f"{node.op_type} node that gives {', '.join(node.output)!r}"


@contextmanager
def naming(node: NodeProto) -> Iterator[None]:
    """Puts the node before the message of an IndexError, TypeError or ValueError."""
    try:
        yield
    except (IndexError, TypeError, ValueError) as error:
        kind = next(kind for kind in (IndexError, TypeError, ValueError) if isinstance(error, kind))
        raise kind(f"{label(node)}: {error}") from error
