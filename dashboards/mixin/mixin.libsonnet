// Dashboards, alerts and recording rules of txnscope. README.md explains how to use it.
(import 'config.libsonnet') +
(import 'dashboards.libsonnet') +
(import 'rules.libsonnet')
