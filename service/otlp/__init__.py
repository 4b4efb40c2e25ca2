"""The export of metrics and traces by OTLP, to the endpoint of `[otlp]`. Only `configuration` may be imported without
the extra `otlp`."""
