"""Problems of PyTorch: gathers, index expressions, views and roll."""
