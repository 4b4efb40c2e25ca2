"""Decides who asks and what they may do: credentials, principals with roles, hosts, needs of routes.

`service.api`, `service.web`, `service.cli`, `service.store` and `service.settings` use it. It imports nothing else of
the project, and no web framework: `service/api/http/access.py` asks it about each request.
"""
