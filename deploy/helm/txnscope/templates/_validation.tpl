{{/* What values.schema.json cannot say: values that do not fit together. */}}
{{- define "txnscope.validate" -}}
{{- $store := .Values.store -}}
{{- $service := .Values.service -}}
{{- if not .Values.clusters -}}
{{- fail "clusters: give at least one, with name and bootstrapServers" -}}
{{- end -}}
{{- $slugs := dict -}}
{{- range .Values.clusters -}}
{{- $slug := include "txnscope.slug" .name -}}
{{- if not $slug -}}
{{- fail (printf "clusters: the name %q has neither a letter nor a digit of ASCII, and names of Kubernetes need one" .name) -}}
{{- end -}}
{{- if hasKey $slugs $slug -}}
{{- fail (printf "clusters: %q and %q would both be called %q in Kubernetes" (get $slugs $slug) .name $slug) -}}
{{- end -}}
{{- $_ := set $slugs $slug .name -}}
{{- if and (eq (.partitions | default "stalled") "all") (not .topics) -}}
{{- fail (printf "clusters: partitions of %q: all needs topics" .name) -}}
{{- end -}}
{{- end -}}
{{- if gt (add (ternary 1 0 (not (empty $store.url))) (ternary 1 0 (not (empty $store.urlKey))) (ternary 1 0 $store.sqlite.enabled)) 1 -}}
{{- fail "store: give only one of store.url, store.urlKey and store.sqlite.enabled" -}}
{{- end -}}
{{- if not (or $store.url $store.urlKey $store.sqlite.enabled) -}}
{{- fail "store: give store.url, or store.existingSecret with store.urlKey, or store.sqlite.enabled=true" -}}
{{- end -}}
{{- if and $store.urlKey (not $store.existingSecret) -}}
{{- fail "store.urlKey: give store.existingSecret, the secret that has this key" -}}
{{- end -}}
{{- if $store.sqlite.enabled -}}
{{- if or (gt (int .Values.job.replicas) 1) (gt (int $service.replicas) 1) -}}
{{- fail "store.sqlite: more than one replica needs PostgreSQL (store.url)" -}}
{{- end -}}
{{- if .Values.spark.master -}}
{{- fail "store.sqlite: a Spark cluster (spark.master) needs PostgreSQL (store.url)" -}}
{{- end -}}
{{- end -}}
{{- if and $service.tls.clientCaKey (not $service.tls.existingSecret) -}}
{{- fail "service.tls.clientCaKey: give service.tls.existingSecret, too" -}}
{{- end -}}
{{- if not $service.insecure -}}
{{- if not $service.tls.existingSecret -}}
{{- fail "service.tls.existingSecret is missing: keys and passwords would be sent unencrypted. Where a proxy with TLS stands in front, or the network is closed, set service.insecure=true" -}}
{{- end -}}
{{- $variables := list -}}
{{- range $service.extraEnv -}}
{{- $variables = append $variables .name -}}
{{- end -}}
{{- if not (or $service.auth.existingSecret $service.tls.clientCaKey $service.extraEnvFrom (has "TXNSCOPE_AUTH" $variables) (regexMatch "(?m)^\\s*\\[auth[.\\]]" .Values.config)) -}}
{{- fail "service.auth.existingSecret is missing: anyone who reaches the service could read everything. Configure it, or [auth] in config, or service.tls.clientCaKey, or set service.insecure=true" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.hosts: give at least one" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- fail "httpRoute.parentRefs: give at least one gateway" -}}
{{- end -}}
{{- end -}}
