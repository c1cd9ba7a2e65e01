"""Problems of NumPy: index expressions."""
