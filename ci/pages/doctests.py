"""Examples in docstrings as blocks of code: `>>>` is a quotation to Markdown."""

from __future__ import annotations

from itertools import groupby


def fenced(docstring: str) -> str:
    """Return a docstring in which each paragraph that begins with `>>>` is a fenced block of Python; neighbours are one."""
    paragraphs = [paragraph.strip("\n") for paragraph in docstring.split("\n\n")]
    found: list[str] = []
    for example, group in groupby(paragraphs, key=lambda paragraph: paragraph.lstrip().startswith(">>>")):
        text = "\n\n".join(group)
        found.append(f"```python\n{text}\n```" if example else text)
    return "\n\n".join(found)
