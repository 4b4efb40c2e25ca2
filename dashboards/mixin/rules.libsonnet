// Groups that only record are in `prometheusRules`. A group that records what its own alerts rest on stays whole, in
// `prometheusAlerts`: Prometheus evaluates the rules of a group one after another, and groups side by side.
local fitting = import 'fitting.libsonnet';

local changeable = ['annotations', 'enabled', 'for', 'keep_firing_for', 'labels', 'severity'];
local isAlert(rule) = std.objectHas(rule, 'alert');
local alertsOf(group) = std.filter(isAlert, group.rules);
local keys(alert) = [alert.alert, alert.alert + '/' + alert.labels.severity];

// What `alerts` of the configuration names, and no alert has.
local misspelt(config, groups) =
  local known = std.set(std.flatMap(keys, std.flatMap(alertsOf, groups)));
  std.setDiff(std.objectFields(config.alerts), known) + [
    name + ': ' + field
    for name in std.objectFields(config.alerts)
    for field in std.setDiff(std.objectFields(config.alerts[name]), changeable)
  ];

local fitted(config) =
  local shipped = fitting.filled(config, importstr 'made/groups.json');
  local wrong = misspelt(config, shipped);
  local text = fitting.expr(config, fitting.labels(config));
  local change(alert) = std.foldl(function(all, key) all + std.get(config.alerts, key, {}), keys(alert), {});
  local some(from, fields) = { [field]: from[field] for field in fields if std.objectHas(from, field) };
  local changed(alert) =
    local asked = change(alert);
    alert {
      labels: config.alertLabels + super.labels + some(asked, ['severity']) + std.get(asked, 'labels', {}),
      annotations+: { runbook_url: config.runbookURLPattern % alert.alert } + std.get(asked, 'annotations', {}),
    } + some(asked, ['for', 'keep_firing_for']);
  local rule(one) = (if isAlert(one) then changed(one) else one) + { expr: text(one.expr) };
  local isWanted(one) = !isAlert(one) || std.get(change(one), 'enabled', true);
  local wanted = [group { rules: std.filter(isWanted, super.rules) } for group in shipped];
  if wrong == [] then [group { rules: std.map(rule, super.rules) } for group in wanted if group.rules != []]
  else error '_config.txnscope.alerts: unknown ' + std.join(', ', wrong);

local isRecording(group) = alertsOf(group) == [];

{
  prometheusAlerts+:: { groups+: std.filter(function(group) !isRecording(group), fitted($._config.txnscope)) },
  prometheusRules+:: { groups+: std.filter(isRecording, fitted($._config.txnscope)) },
}
