"""Lightning hooks feed probes; probes feed records."""
