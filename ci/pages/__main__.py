"""`python -m ci.pages`: writes what the code generates: schemas, tables and pictures under docs/, a part of the C++ header.

It runs in an environment of `ci/setup test`. tests/pages/test_written.py compares the files with what it would write.
"""

from __future__ import annotations

import argparse

from ci.pages.written import ROOT, written

argparse.ArgumentParser("python -m ci.pages", description=__doc__).parse_args()
for name, text in written():
    (ROOT / name).write_text(text, encoding="utf-8")
