"""What `BatchSizeAdvisor` is made of: peaks of memory in, advice in words out."""
