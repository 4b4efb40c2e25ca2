"""The judge: derives findings from the stored data, round by round, and asks brokers if the store cannot decide alone.
Only the judge opens and ends findings. Imported by `spark_jobs.application`."""
