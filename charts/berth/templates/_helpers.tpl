{{/*
What the names of all objects begin with. Cut, so that the longest still fits into the name of a Service.
*/}}
{{- define "berth.fullname" -}}
{{- $name := .Release.Name -}}
{{- if .Values.fullnameOverride -}}
{{- $name = .Values.fullnameOverride -}}
{{- else if not (contains .Chart.Name .Release.Name) -}}
{{- $name = printf "%s-%s" .Release.Name .Chart.Name -}}
{{- end -}}
{{- $name | trunc 28 | trimSuffix "-" -}}
{{- end }}

{{- define "berth.labels" -}}
{{ include "berth.name" . }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/*
Not the chart's name by way of a value: the pods' label is in a selector, which never changes.
*/}}
{{- define "berth.name" -}}
app.kubernetes.io/name: berth
{{- end }}

{{- define "berth.selector" -}}
{{ include "berth.name" . }}
control-plane: controller-manager
{{- end }}

{{- define "berth.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default (printf "v%s" .Chart.AppVersion) }}
{{- end -}}
{{- end }}
