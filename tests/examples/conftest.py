"""Puts the examples' folder on the path, like running a script from there."""

from __future__ import annotations

import sys

from tests.examples import FOLDER

sys.path.insert(0, str(FOLDER))
