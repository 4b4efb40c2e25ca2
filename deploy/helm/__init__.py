"""The Helm chart of txnscope: the table of values in its README, and its package, made without Helm."""
