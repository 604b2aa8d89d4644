"""Files of JAX's profiler."""
