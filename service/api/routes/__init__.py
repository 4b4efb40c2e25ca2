"""The routes of the REST API, a module for each resource. Imported by `service.app` alone."""
