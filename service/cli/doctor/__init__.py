"""Examines a cluster for `txnscope doctor`: topics, groups, ids, and a bounded read of the transaction log."""
