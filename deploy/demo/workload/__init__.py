"""Applications with transactions. Some are healthy. In others, transactions time out, instances fence one another, or
ids expire.

Imported by the demo and by tests.
"""
