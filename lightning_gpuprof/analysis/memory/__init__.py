"""What device memory holds, and the batch size that would fill it well."""
