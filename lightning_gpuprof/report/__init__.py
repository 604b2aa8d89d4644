"""What is said of a run, a trace, a comparison or a trial: one typed document and its renderers."""
