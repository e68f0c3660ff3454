{{- define "countersign.name" -}}{{ .Release.Name }}-{{ .service }}{{- end }}

{{- define "countersign.selector" -}}
app.kubernetes.io/name: countersign
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: {{ .service }}
{{- end }}

{{- define "countersign.labels" -}}
{{ include "countersign.selector" . }}
app.kubernetes.io/version: {{ include "countersign.tag" . | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "countersign.tag" -}}{{ .Values.image.tag | default .Chart.AppVersion }}{{- end }}

{{- define "countersign.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "countersign.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* The variables of a service, as a map: its own win over those of every service, and those over the chart's. */ -}}
{{- define "countersign.env" -}}
{{- $env := dict
  "COUNTERSIGN_DATABASE_URL_FILE" "/run/secrets/database-url"
  "COUNTERSIGN_GITHUB_APP_ID" (.Values.github.appId | int64 | toString)
  "COUNTERSIGN_OPERATOR_LISTEN" ":9090"
  "COUNTERSIGN_ENVIRONMENT" .Values.environment
  "COUNTERSIGN_LOG_LEVEL" .Values.logLevel
  "COUNTERSIGN_SHUTDOWN_GRACE" .Values.shutdownGrace -}}
{{- if .Values.nats.url -}}
{{- $env = merge $env (dict "COUNTERSIGN_NATS_URL" .Values.nats.url "COUNTERSIGN_NATS_NKEY_SEED_FILE" "/run/secrets/nats-seed" "COUNTERSIGN_NATS_STORAGE" "file") -}}
{{- end -}}
{{- if .Values.otlpEndpoint -}}
{{- $env = merge $env (dict "COUNTERSIGN_OTLP_ENDPOINT" .Values.otlpEndpoint) -}}
{{- end -}}
{{- if eq .service "ingress" -}}
{{- $env = merge $env (dict "COUNTERSIGN_INGRESS_LISTEN" ":8081" "COUNTERSIGN_WEBHOOK_SECRET_FILE" "/run/secrets/webhook-secret") -}}
{{- else -}}
{{- $env = merge $env (dict "COUNTERSIGN_GITHUB_API_URL" .Values.github.apiUrl "COUNTERSIGN_GITHUB_PRIVATE_KEY_FILE" "/run/secrets/private-key.pem") -}}
{{- end -}}
{{- if .own.goMemLimit -}}
{{- $env = merge $env (dict "GOMEMLIMIT" .own.goMemLimit) -}}
{{- end -}}
{{- $env = mergeOverwrite $env (.Values.env | default dict) (.own.env | default dict) -}}
{{- range $name, $value := $env }}
- name: {{ $name }}
  value: {{ $value | toString | quote }}
{{- end }}
{{- end }}
