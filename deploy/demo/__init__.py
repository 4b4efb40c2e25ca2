"""`make demo`: runs a broker, a workload with every kind of trouble, and txnscope. Tests import the broker and the
workload."""
