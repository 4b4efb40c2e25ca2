"""The missing marker of a hanging transaction, written by hand: by the rules, after one more look at everything."""
