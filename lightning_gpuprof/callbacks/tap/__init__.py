"""The profiler in the place of the Trainer's own, and the regions that it opens."""
