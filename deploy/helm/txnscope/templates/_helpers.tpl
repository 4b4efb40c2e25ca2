{{/* The name of all objects. */}}
{{- define "txnscope.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains "txnscope" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-txnscope" (.Release.Name | trunc 31 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{/* Labels that select the release's pods. They stay as they are for ever: a Deployment's selector cannot change. */}}
{{- define "txnscope.selector" -}}
app.kubernetes.io/name: txnscope
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "txnscope.labels" -}}
{{ include "txnscope.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: txnscope
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "txnscope.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "txnscope.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{/* A cluster's name in the form that names and labels of Kubernetes have. */}}
{{- define "txnscope.slug" -}}
{{- regexReplaceAll "[^a-z0-9]+" (lower .) "-" | trunc 20 | trimAll "-" -}}
{{- end -}}

{{/* Where people reach the pages. */}}
{{- define "txnscope.page" -}}
{{- if .Values.links.page -}}
{{- .Values.links.page | trimSuffix "/" -}}
{{- else if and .Values.ingress.enabled .Values.ingress.hosts -}}
{{- printf "%s://%s" (ternary "https" "http" (not (empty .Values.ingress.tls))) (first .Values.ingress.hosts) -}}
{{- else if and .Values.httpRoute.enabled .Values.httpRoute.hostnames -}}
{{- printf "https://%s" (first .Values.httpRoute.hostnames) -}}
{{- end -}}
{{- end -}}

{{- define "txnscope.scheme" -}}
{{- ternary "https" "http" (not (empty .Values.service.tls.existingSecret)) -}}
{{- end -}}

{{/* Labels, as a selector, of the pods of one component: (dict "root" $ "component" "job" "cluster" SLUG). */}}
{{- define "txnscope.component" -}}
{{ include "txnscope.selector" .root }}
app.kubernetes.io/component: {{ .component }}
{{- with .cluster }}
txnscope-cluster: {{ . | quote }}
{{- end }}
{{- end -}}
