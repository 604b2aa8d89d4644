"""The critical path of a trace, and its length without a part of the work."""
