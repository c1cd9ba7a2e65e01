"""Backends, which execute an IndexPlan over buffers. They know no operators and no dialects."""
