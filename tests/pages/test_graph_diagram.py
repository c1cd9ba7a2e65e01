"""The picture of a gather's tasks, compared with one made by hand."""

from __future__ import annotations

from xml.etree import ElementTree

from ci.pages.graph_diagram import draw

SVG = "{http://www.w3.org/2000/svg}"


def test_a_picture_shows_what_each_task_holds() -> None:
    # Chunks of rows 0 … 1, 2 … 4 and 5; blocks of two indices.
    root = ElementTree.fromstring(draw((2, 3, 1), (3, -6, 2, 9), block=2))
    description = root.find(f"{SVG}desc")
    assert description is not None
    assert description.text == (
        "Indices are resolved and split by chunk when gather is called; -6 means row 0, 9 means row 5. "
        "Loaded: chunk 0, chunk 1, chunk 2. "
        "Tasks: take chunk 0: rows 0; take chunk 1: rows 2, 3; take chunk 2: rows 5; "
        "pick chunk 1, block 0: rows 3; place block 0: rows 3, 0; "
        "pick chunk 1, block 1: rows 2; place block 1: rows 2, 5."
    )
    edges = root.findall(f"{SVG}path")
    assert len(edges) == 3 + 2 + 4  # chunks to takes, takes to picks, and two for each block


def test_a_chunk_that_nothing_wants_is_not_loaded() -> None:
    texts = [each.text for each in ElementTree.fromstring(draw((1, 1), (1,), block=1)).iter(f"{SVG}text")]
    assert "chunk 0: not loaded" in texts
    assert "chunk 1: not loaded" not in texts
