"""The REST API. Imported by `service.app`, and by the pages, which share its parameters, errors and caching."""
