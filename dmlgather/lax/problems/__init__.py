"""Problems of JAX."""
