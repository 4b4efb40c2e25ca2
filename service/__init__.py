"""Everything but the streaming application: domain rules, Kafka's formats and requests, the store, REST, pages, CLI.

`spark_jobs` imports the lower half of it (wire, domain, kafka, store, views, settings, processes, clock), never REST,
pages or CLI.
"""
