"""The missing marker of a hanging transaction, by hand and by the rules: everything is looked at again, right before."""
