"""Blocks of pages that code writes: `<!-- NAME: ci/pages writes it -->`, what was written, `<!-- end of NAME -->`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence


def replaced(text: str, contents: Mapping[str, str]) -> str:
    """`text` with new blocks: name -> content. ValueError for a block that the text lacks."""
    for name, content in contents.items():
        opening, closing = f"<!-- {name}: ci/pages writes it -->\n", f"<!-- end of {name} -->"
        before, opened, rest = text.partition(opening)
        _, closed, after = rest.partition(closing)
        if not opened or not closed:
            raise ValueError(f"the page lacks {closing if opened else opening.rstrip()!r}")
        text = f"{before}{opening}\n{content.rstrip()}\n\n{closing}{after}"
    return text


def table(heading: Sequence[str], rows: Iterable[Sequence[str]], words: Collection[str] = ()) -> str:
    """A table. words: the columns that are aligned at the left; all, if none is named."""
    ruled = ("---" if not words or column in words else "---:" for column in heading)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heading, tuple(ruled), *rows))
