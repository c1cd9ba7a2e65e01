"""Generated blocks of pages, between `<!-- NAME: ci/pages writes it -->` and `<!-- end of NAME -->`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence


def replaced(text: str, contents: Mapping[str, str]) -> str:
    """Return `text` with new contents of blocks, by name. Raises ValueError for a missing block."""
    for name, content in contents.items():
        opening, closing = f"<!-- {name}: ci/pages writes it -->\n", f"<!-- end of {name} -->"
        before, opened, rest = text.partition(opening)
        _, closed, after = rest.partition(closing)
        if not opened or not closed:
            raise ValueError(f"the page lacks {closing if opened else opening.rstrip()!r}")
        text = f"{before}{opening}\n{content.rstrip()}\n\n{closing}{after}"
    return text


def table(heading: Sequence[str], rows: Iterable[Sequence[str]], left_aligned: Collection[str] = ()) -> str:
    """Return a Markdown table. `left_aligned`: names of columns; default: all."""
    rule = ("---" if not left_aligned or column in left_aligned else "---:" for column in heading)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heading, tuple(rule), *rows))
