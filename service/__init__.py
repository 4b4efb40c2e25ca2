"""Everything but the streaming application: what facts mean, Kafka's formats and requests, the store, REST, pages, CLI.

`spark_jobs` imports its lower half (wire, domain, kafka, store, processes, clock), never the surfaces.
"""
