"""Everything but the streaming application: domain rules, Kafka's formats and requests, the store, REST, pages, CLI.

Of this package, `spark_jobs` imports wire, domain, kafka, store, views, settings, processes and clock, but never REST,
pages or CLI.
"""
