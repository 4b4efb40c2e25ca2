"""`make demo`: a broker, a workload that goes wrong in every way, txnscope beside it.

Tests import its broker and its workload.
"""
