"""The REST API. Imported by `service.app`, and by the pages, which show its answers."""
