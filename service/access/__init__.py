"""Decides who sent a request and what the sender may do: credentials, principals with roles, hosts, roles that routes
need.

Imported by most packages of the service; `service/api/http/access.py` calls the package for each request. Of the
project, the package imports only `service.http_client`; it imports no web framework.
"""
