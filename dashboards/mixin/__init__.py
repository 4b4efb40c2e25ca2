"""The mixin: dashboards and rules as jsonnet, fitted by `_config`. The Python of `dashboards` and `dashboards.rules`
builds their content; only what `_config` changes is jsonnet."""
