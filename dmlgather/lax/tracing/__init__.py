"""From a JAX function to the gathers and slices that it performs."""
