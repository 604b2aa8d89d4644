"""The report and comparisons as GitHub-flavoured Markdown."""
