"""`make demo`: runs a broker, a workload, transactions that hang or get stuck, and txnscope. Tests import the broker
and the workload."""
