"""The routes of the REST API, a module for each resource. Only `service.app` imports them at run time."""
