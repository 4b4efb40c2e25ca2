"""What `txnscope doctor` asks a cluster: topics, groups, ids, and a bounded look into the transaction log."""
