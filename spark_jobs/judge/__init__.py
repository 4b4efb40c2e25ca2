"""The judge: derives findings from the stored data, round by round, and asks brokers if the store cannot decide alone.
The judge is the only writer of findings. Imported by `spark_jobs.application`."""
