"""Problems of JAX: lax.gather."""
