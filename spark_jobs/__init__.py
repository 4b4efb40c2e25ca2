"""The streaming application: three Spark queries that read Kafka into the store, and the judge that derives findings
from the stored data. `txnscope ingest` and `txnscope watch` start the application as a process of its own; the service
does not import it."""
