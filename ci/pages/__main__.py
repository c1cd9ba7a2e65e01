"""`python -m ci.pages`: write the generated files: schemas, tables and diagrams in docs/, and a part of the C++ header.

It needs an environment of `ci/setup test`. tests/pages/test_written.py checks that the files are up to date.
"""

from __future__ import annotations

import argparse

from ci.pages.written import ROOT, written

argparse.ArgumentParser("python -m ci.pages", description=__doc__).parse_args()
for name, text in written():
    (ROOT / name).write_text(text, encoding="utf-8")
