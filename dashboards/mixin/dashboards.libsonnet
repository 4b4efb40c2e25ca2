local fitting = import 'fitting.libsonnet';

local fitted(config) =
  local text = fitting.expr(config);
  local variable(one) =
    if one.type == 'query' then one { query: text(super.query), definition: text(super.definition) }
    else if one.type == 'datasource' && config.datasourceFilterRegex != '' then
      one { regex: config.datasourceFilterRegex }
    else one;
  local link(one) =
    local common = [tag for tag in std.get(one, 'tags', []) if std.member(config.dashboardTags, tag)];
    if one.type == 'dashboards' then one { tags: if common == [] then config.dashboardTags else common } else one;
  local asked(one) = one { expr: text(super.expr) };
  local panel(one) = if std.objectHas(one, 'targets') then one { targets: std.map(asked, super.targets) } else one;
  local board(one) = one {
    title: config.dashboardNamePrefix + super.title,
    tags: config.dashboardTags,
    refresh: config.dashboardRefresh,
    timezone: config.dashboardTimezone,
    links: std.map(link, super.links),
    templating: { list: std.map(variable, one.templating.list) },
    annotations: { list: std.map(asked, one.annotations.list) },
    panels: std.map(panel, super.panels),
  };
  std.mapWithKey(function(file, one) board(one), fitting.filled(config, importstr 'made/boards.json'));

{
  grafanaDashboards+:: fitted($._config.txnscope),
}
