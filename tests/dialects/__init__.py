"""Tests of what dialects share, and the contract that each fills in."""

import pytest

pytest.register_assert_rewrite("tests.dialects.contract_tests")  # whose failures show values as those of tests do
