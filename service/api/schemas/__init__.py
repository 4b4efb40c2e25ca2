"""The bodies of answers, one definition each: OpenAPI shows these classes, routes build them from rows and domain
values, and `shape.to_json` makes the bytes. The command line builds some of them, too, so no module here needs a web
framework.
"""
