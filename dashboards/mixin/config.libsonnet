local shipped = import 'made/defaults.json';

local defaults = {
  // Matcher of txnscope's scrape jobs, between the braces of `up`.
  txnscopeSelector: shipped.selector,
  // Matchers of every other selector, in rules and dashboards, such as 'env="prod"'. Alerts keep these labels.
  matchers: [],
  // Labels of the targets by which all rules group and match, such as 'env': they tell clusters of the same name apart.
  groupLabels: [],
  // Labels of every alert, for a Prometheus without external labels.
  alertLabels: {},
  // Label with the name of the Kafka cluster. Without honor_labels, it may be 'exported_cluster'.
  clusterLabel: shipped.cluster,

  // Where people reach the service and Grafana.
  pageUrl: shipped.page,
  grafanaUrl: shipped.grafana,
  // Address of an alert's runbook; %s is the alert.
  runbookURLPattern: self.pageUrl + '/guide/runbooks/%s.md',

  dashboardNamePrefix: shipped.boards.prefix,
  dashboardTags: shipped.boards.tags,
  dashboardRefresh: shipped.boards.refresh,
  dashboardTimezone: shipped.boards.timezone,
  // Which data sources may be chosen; empty: every Prometheus.
  datasourceFilterRegex: '',

  // Changes of alerts, by name, or by name/severity as shipped: severity, for, keep_firing_for, labels, annotations, and
  // enabled: false.
  alerts: {},
};

{
  // Mixins that are added to each other share `_config`: all of ours is below `txnscope`.
  _config+:: { txnscope: defaults },

  local given = std.objectFieldsAll($._config.txnscope),
  local unknown = std.setDiff(given, std.objectFieldsAll(defaults)),
  local lost = std.setDiff(std.objectFieldsAll(defaults), given),
  assert unknown == [] : '_config.txnscope has no key ' + std.join(', ', unknown),
  assert lost == [] : '_config.txnscope lacks %s: write `txnscope+: {…}`, with a plus' % std.join(', ', lost),
}
