"""One file per fact that is noted beside timing; none of them computes on the user's tensors."""
