"""From a PyTorch program to its gathers, slices and views."""
