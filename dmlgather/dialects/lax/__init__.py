"""JAX: lax.gather."""
