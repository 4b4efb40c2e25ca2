"""The pages of findings: the list, one finding, what to do about it, and the words for it."""
