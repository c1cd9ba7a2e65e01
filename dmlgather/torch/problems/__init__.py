"""PyTorch: index_select, gather and its other gathers, and its views, with PyTorch's rules and errors."""
