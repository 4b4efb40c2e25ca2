"""The mixin: dashboards and rules as jsonnet, which a user adapts by `_config`. `dashboards` and `dashboards.rules`
build the content in Python; jsonnet only applies `_config`."""
