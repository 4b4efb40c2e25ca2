// Fits what Python built to `_config.txnscope`. For expressions, dashboards/rules/scope.py does the same when it writes
// the rule files; a test compares both.
{
  local labelOf(matcher) = std.split(std.strReplace(matcher, '!', '='), '=')[0],
  local once(names) =
    std.foldl(function(kept, name) if std.member(kept, name) then kept else kept + [name], names, []),

  // The document in which each @key@ is the text of that key.
  filled(config, text)::
    local inJson(value) =
      local quoted = std.escapeStringJson(value);
      std.substr(quoted, 1, std.length(quoted) - 2);
    std.parseJson(std.foldl(
      function(document, key) std.strReplace(document, '@' + key + '@', inJson(config[key])),
      ['clusterLabel', 'pageUrl', 'grafanaUrl'],
      text
    )),

  // A function from the parts of an expression to its text, with the matchers in every selector. `labels` are added
  // wherever it groups or matches.
  expr(config, labels=[])::
    local ofClusters = config.matchers;
    local ofOthers = [one for one in config.matchers if labelOf(one) != config.clusterLabel];
    local selector(part) =
      local own = if part.metric == 'up' then [config.txnscopeSelector] else part.matchers;
      local all = own + (if part.hasCluster then ofClusters else ofOthers);
      part.metric + (if all == [] then '' else '{' + std.join(',', all) + '}');
    local grouping(part) =
      part.how + ' (' + std.join(', ', if labels == [] then part.labels else once(part.labels + labels)) + ')';
    local text(part) =
      if std.isString(part) then part
      else if std.objectHas(part, 'metric') then selector(part)
      else grouping(part);
    function(parts) std.join('', std.map(text, parts)),

  // The labels by which rules tell environments apart: those of `groupLabels`, and those of the matchers.
  labels(config)::
    [name for name in config.groupLabels + std.map(labelOf, config.matchers) if name != config.clusterLabel],
}
