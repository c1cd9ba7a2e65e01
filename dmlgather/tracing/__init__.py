"""What the traces of JAX and PyTorch share: entries, tables, plain data, and fused runs."""
