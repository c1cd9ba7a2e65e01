"""Problems of PyTorch: gathers, index expressions, views and roll, with PyTorch's rules and errors."""
