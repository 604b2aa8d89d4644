"""Device memory: readings, snapshots, and the batch size that would fill it."""
