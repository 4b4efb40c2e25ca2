{{/* Parts that all pods have. */}}

{{- define "txnscope.image" -}}
{{- $image := index .root.Values.image .of -}}
{{- $repository := list .root.Values.image.registry $image.repository | compact | join "/" -}}
image: {{ if $image.digest }}{{ printf "%s@%s" $repository $image.digest | quote }}{{ else }}{{ printf "%s:%s" $repository ($image.tag | default .root.Chart.AppVersion) | quote }}{{ end }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
{{- end -}}

{{- define "txnscope.podSecurity" -}}
serviceAccountName: {{ include "txnscope.serviceAccount" . }}
automountServiceAccountToken: false
# else a Service with the name txnscope would set TXNSCOPE_PORT, which is a setting
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "txnscope.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  capabilities: {drop: [ALL]}
{{- end -}}

{{/* The store: no password is on a command line, nor in a ConfigMap. */}}
{{- define "txnscope.storeEnvironment" -}}
{{- $store := .Values.store -}}
{{- if $store.sqlite.enabled }}
- name: TXNSCOPE_STORE
  value: sqlite:////var/lib/txnscope/txnscope.db
{{- else if $store.urlKey }}
- name: TXNSCOPE_STORE
  valueFrom: {secretKeyRef: {name: {{ $store.existingSecret }}, key: {{ $store.urlKey }}}}
{{- else }}
- name: TXNSCOPE_STORE
  value: {{ $store.url | quote }}
{{- if $store.existingSecret }}
- name: PGPASSWORD
  valueFrom: {secretKeyRef: {name: {{ $store.existingSecret }}, key: {{ $store.passwordKey }}}}
{{- end }}
{{- end }}
{{- end -}}

{{- define "txnscope.storeVolume" -}}
{{- if .Values.store.sqlite.enabled }}
- name: store
  persistentVolumeClaim: {claimName: {{ .Values.store.sqlite.existingClaim | default (printf "%s-store" (include "txnscope.fullname" .)) }}}
{{- end }}
{{- end -}}

{{- define "txnscope.storeMount" -}}
{{- if .Values.store.sqlite.enabled }}
- {name: store, mountPath: /var/lib/txnscope}
{{- end }}
{{- end -}}

{{/* Where the pods of a component run: (dict "root" $ "of" VALUES "labels" LABELS). */}}
{{- define "txnscope.placement" -}}
{{- with .of.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .of.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
affinity:
{{- if .of.affinity }}
  {{- toYaml .of.affinity | nindent 2 }}
{{- else if .root.Values.store.sqlite.enabled }}
  # the file of SQLite is shared by processes of one node
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "txnscope.selector" .root | nindent 12 }}
          matchExpressions:
            - {key: app.kubernetes.io/component, operator: In, values: [job, service]}
{{- else }}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- .labels | nindent 14 }}
{{- end }}
{{- with .of.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  {{- $default := dict "labelSelector" (dict "matchLabels" (fromYaml $.labels)) }}
  - {{- toYaml (merge (deepCopy .) $default) | nindent 4 }}
  {{- end }}
{{- end }}
{{- with .of.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}
