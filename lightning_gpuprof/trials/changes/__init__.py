"""The changes that `try` can measure, found by their files; see `trials/change.py`."""
