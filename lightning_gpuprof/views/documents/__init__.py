"""The JSON documents: reports, traces and comparisons as plain values."""
