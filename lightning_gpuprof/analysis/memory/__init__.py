"""Device memory over a run: its use, its growth, snapshots and the advice of all ranks."""
