"""`make demo`: a broker, a workload with every kind of trouble, and txnscope beside them.

Tests import its broker and its workload.
"""
