"""Conversion of docstring examples to blocks of code: Markdown reads `>>>` as a quotation."""

from __future__ import annotations

from itertools import groupby


def fenced(docstring: str) -> str:
    """Return a docstring with fenced Python blocks around paragraphs that begin with `>>>`. Adjacent ones share a block."""
    paragraphs = [paragraph.strip("\n") for paragraph in docstring.split("\n\n")]
    blocks: list[str] = []
    for example, group in groupby(paragraphs, key=lambda paragraph: paragraph.lstrip().startswith(">>>")):
        text = "\n\n".join(group)
        blocks.append(f"```python\n{text}\n```" if example else text)
    return "\n\n".join(blocks)
