"""Tests and the tools they share."""
