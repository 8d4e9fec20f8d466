{{/* The name of all objects: that of the release, with the name of the chart unless it is in there. */}}
{{- define "aileron.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
{{- end }}

{{/* Cluster-wide objects of two releases must have different names. */}}
{{- define "aileron.clusterName" -}}
{{- if eq .Release.Namespace (include "aileron.name" .) }}{{ include "aileron.name" . }}{{ else }}{{ .Release.Namespace }}-{{ include "aileron.name" . }}{{ end }}
{{- end }}

{{- define "aileron.serviceAccount" -}}
{{- if .Values.serviceAccount.name }}{{ .Values.serviceAccount.name }}
{{- else if .Values.serviceAccount.create }}{{ include "aileron.name" . }}
{{- else }}{{ fail "serviceAccount.name: name the existing service account, or set serviceAccount.create" }}
{{- end }}
{{- end }}

{{- define "aileron.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "aileron.labels" -}}
{{ include "aileron.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "aileron.image" -}}
{{- $repository := required "image.repository: there is no published image of Aileron; name one of your own" .Values.image.repository }}
{{- if .Values.image.digest }}{{ $repository }}@{{ .Values.image.digest }}{{ else }}{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The names of the features in files/permissions.yaml that these values switch on, as a JSON list. */}}
{{- define "aileron.features" -}}
{{- $all := .Files.Get "files/permissions.yaml" | fromYaml }}
{{- $names := list "core" }}
{{- if .Values.garbageCollection.enabled }}{{ $names = append $names "garbage-collection" }}{{ end }}
{{- if .Values.quotas.enabled }}{{ $names = append $names "quotas" }}{{ end }}
{{- if .Values.pools.enabled }}{{ $names = append $names "pools" }}{{ end }}
{{- if and .Values.metrics.enabled .Values.metrics.secure }}{{ $names = append $names "secure-metrics" }}{{ end }}
{{- if .Values.leaderElection.enabled }}{{ $names = append $names "leader-election" }}{{ end }}
{{- if or (without .Values.plugins "pod") .Values.extraPlugins }}{{ $names = append $names "definitions" }}{{ end }}
{{- range .Values.plugins }}
{{- $name := printf "plugin-%s" . }}
{{- if not (hasKey $all.features $name) }}
{{- fail (printf "plugins: there is no plugin %q; files/permissions.yaml has those that there are" .) }}
{{- end }}
{{- $names = append $names $name }}
{{- end }}
{{- toJson $names }}
{{- end }}

{{/* The ids of the enabled plugins, for `tasks.task-plugins.enabled-plugins`. */}}
{{- define "aileron.pluginIds" -}}
{{- $all := .Files.Get "files/permissions.yaml" | fromYaml }}
{{- $ids := $all.always }}
{{- range .Values.plugins }}{{ $ids = concat $ids (index $all.features (printf "plugin-%s" .)).ids }}{{ end }}
{{- join "," (concat $ids .Values.extraPlugins) }}
{{- end }}
