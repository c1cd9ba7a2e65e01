"""Backends, which execute an IndexPlan over buffers. No backend knows which operator or dialect a plan came from."""
