"""Decides who sent a request and what they may do: credentials, principals with roles, hosts, needs of routes.

Used by `service.app`, `service.api`, `service.web`, `service.cli`, `service.store`, `service.settings` and
`service.notifications`. Of the project it imports `service.http_client` alone, and no web framework:
`service/api/http/access.py` asks it about each request.
"""
