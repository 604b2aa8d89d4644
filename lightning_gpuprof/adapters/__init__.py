"""Adapters: the only modules that name private parts of torch or Lightning.

Every adapter states the versions that have these names, and what happens without them.
"""
