"""Documents as text for a terminal and as GitHub-flavoured Markdown."""
