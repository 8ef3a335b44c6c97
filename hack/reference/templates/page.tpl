{{- define "gvList" -}}
<!-- Written by `make reference` from comments and flags in api/v1alpha1, internal/events, and cmd/manager/app. Change those. -->

# Reference

Every field, condition, reason, Event, and flag. [Concepts](concepts.md) says what the kinds are for. `kubectl explain` has the fields.
{{ range . }}{{ $gv := . }}
{{ range $gv.SortedKinds }}- [{{ . }}](#{{ lower . }})
{{ end }}- [Types](#types)
- [Conditions](#conditions)
- [Events](#events)
- [Flags of the manager](#flags-of-the-manager)
{{ range $gv.SortedKinds }}
{{ template "kind" (dict "type" ($gv.TypeForKind .) "gv" $gv) }}
{{- end }}
## Types

A time has the format of RFC 3339. A duration is in hours, minutes, and seconds, such as 90s or 1h30m. The CRDs also bound texts in a status.
{{- /* Not of kinds, which are above; of enums and texts, which their fields explain; of objects without fields; and of
Subject, whose fields are inlined. */}}
{{ range $gv.SortedTypes }}{{ if and .Members (ne .Name "Subject") (not (regexMatch "(PlacementPolicy|LimitedResource|Quota)(Spec|Status)?$" .Name)) }}
{{ template "type" (dict "type" . "gv" $gv) }}
{{- end }}{{ end }}{{ end }}
{{- end -}}

{{- define "kind" -}}
{{- $gv := .gv }}{{ $type := .type -}}
## {{ $type.Name }}

{{ template "text" $type.Doc }}
{{ $resource := index $type.Markers "kubebuilder:resource" | first }}
`{{ $resource.Path }}` of `{{ $gv.GroupVersionString }}`, {{ if eq $resource.Scope "Cluster" }}cluster-scoped{{ else }}in namespaces{{ end }}; short name `{{ first $resource.ShortName }}`, category `{{ first $resource.Categories }}`.
Guide: {{ if eq $type.Name "PlacementPolicy" }}[PlacementPolicy](placementpolicy.md){{ else }}[ScopedQuota, ClusterScopedQuota, LimitedResource](scopedquota.md){{ end }}.

{{- /* The kind whose columns this one has, too. */}}

{{ $base := get (dict "ClusterScopedQuota" "ScopedQuota") $type.Name -}}
{{ $shared := list "Age" -}}
{{ if $base }}{{ range index ($gv.TypeForKind $base).Markers "kubebuilder:printcolumn" }}{{ $shared = append $shared .Name }}{{ end }}{{ end -}}
Columns of `kubectl get`{{ if $base }}, besides those of [{{ $base }}](#{{ lower $base }}){{ end }}:

{{ range index $type.Markers "kubebuilder:printcolumn" }}{{ if not (has .Name $shared) -}}
- {{ upper .Name }} (`{{ .JSONPath }}`{{ if .Priority }}; `-o wide`{{ end }}): {{ .Description }}
{{ end }}{{ end -}}
{{ range $type.Fields }}{{ if has .Name (list "spec" "status") }}
{{ template "type" (dict "type" .Type "gv" $gv) }}
{{- end }}{{ end }}
{{- end -}}

{{- define "type" -}}
{{- $gv := .gv }}{{ $type := .type -}}
### {{ $type.Name }}

{{ template "text" $type.Doc }}
{{- /* The type whose fields this one has, too, and the names of these fields. */ -}}
{{- $base := get (dict "ClusterScopedQuotaSpec" "ScopedQuotaSpec" "ClusterScopedQuotaStatus" "ScopedQuotaStatus" "Preference" "Requirement") $type.Name }}
{{- $shared := list }}
{{- $written := regexMatch "Status$|^(Approver|Dependency|FailedMove|Finding|MoveFailures|MovingObject|NamespaceObjects|NamespaceUsage|PausedChange|PlanApproval|PlanTransition|PlannedMove|QuotaModule|RemediationPlan|Reservation|Violation|WaitingObjects)$" $type.Name }}
{{- range $gv.SortedTypes }}{{ if eq .Name $base }}{{ range .Members }}{{ $shared = append $shared .Name }}{{ end }}{{ end }}{{ end }}
{{- if $base }} It has the fields of [{{ $base }}](#{{ lower $base }}), and:{{ end }}

{{ range $type.Members }}{{ if not (has .Name $shared) -}}
- `{{ .Name }}` ({{ template "typeName" .Type }}{{ template "rules" (dict "field" . "written" $written) }}): {{ template "meaning" . }}
{{ end }}{{ end }}
{{- /* Rules that relate fields to each other: the type's own, and those of the type that is inlined into it. */ -}}
{{- $fields := dict }}
{{- range $gv.SortedTypes }}{{ $own := eq .Name $type.Name }}
{{- if regexMatch "^Quota(Spec|Status)$" .Name }}{{ range .References }}{{ if eq .Name $type.Name }}{{ $own = true }}{{ end }}{{ end }}{{ end }}
{{- if and $own (not $base) }}{{ range index .Markers "kubebuilder:validation:XValidation" }}
{{- $field := .FieldPath | trimPrefix "." | printf "`%s`" | replace "``" "" }}
{{- $_ := set $fields .Message (append (get $fields .Message | default list) $field | uniq | sortAlpha) }}{{ end }}{{ end }}
{{- end }}
{{- $refused := list }}
{{- range $message, $names := $fields }}{{ $refused = append $refused (printf "%s: %s" (join ", " $names) $message | trimPrefix ": ") }}{{ end }}
{{- if $refused }}
Refused with:

{{ range $refused | sortAlpha -}}
- {{ . }}
{{ end }}
{{- end }}
{{- end -}}

{{- /* A comment in one line. */ -}}
{{- define "text" -}}
{{- . | replace "\n\n" "\n" | replace "\n" " " | replace "<" "\\<" -}}
{{- end -}}

{{- /* What a field is, without its name, and without the default and the bounds that are beside it. */ -}}
{{- define "meaning" -}}
{{- $text := .Doc | replace "\n" " " -}}
{{- $text = regexReplaceAll (printf "^%s (is |are )?" .Name) $text "" -}}
{{- $text = regexReplaceAll " ?((Must be (at least|from|0 or) |At most )[^.]*)\\." $text "" -}}
{{- if .Default }}{{ $text = regexReplaceAll " ?Defaults to [^ ]+( \\([^)]*\\))?\\.$" $text "" }}{{ end -}}
{{ template "text" $text }}
{{- end -}}

{{- define "typeName" -}}
{{- if or .EnumValues (and (eq .Kind 0) .UnderlyingType (eq .UnderlyingType.Name "string")) -}}
string
{{- else if and (eq .Kind 6) (not .Fields) (hasSuffix "/api/v1alpha1" .Package) -}}
object
{{- else if eq .Kind 3 -}}
map of {{ template "typeName" .KeyType }} to {{ template "typeName" .ValueType }}
{{- else if and (eq .Kind 5) (eq .UnderlyingType.Name "byte") -}}
text in base64
{{- else if eq .Kind 5 -}}
list of {{ template "typeName" .UnderlyingType }}
{{- else if eq .Kind 4 -}}
{{ template "typeName" .UnderlyingType }}
{{- else if has .Name (list "ResourceName" "ResourceQuotaScope" "ScopeSelectorOperator" "LabelSelectorOperator") -}}
string
{{- else if eq .Name "Quantity" -}}
[quantity](https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/)
{{- else if eq .Name "JSON" -}}
object
{{- else if eq .Name "Condition" -}}
[condition](#conditions)
{{- else if has .Name (list "Time" "Duration") -}}
{{ lower .Name }}
{{- else if eq .Name "IntOrString" -}}
integer or string
{{- else -}}
{{ markdownRenderTypeLink . }}
{{- end -}}
{{- end -}}

{{- /* The rules of one field, in words. Of what Berth writes, the lengths of texts, the sizes of maps, the signs of counts, whether it
is required, and the values, which its meaning lists, are left out. */ -}}
{{- define "rules" -}}
{{- $written := .written }}{{ with .field -}}
{{- $rules := list }}{{ $each := "" }}{{ $least := "" }}{{ $most := "" }}{{ $default := .Default -}}
{{- $all := join "\n" .Validation }}{{ $words := $written }}{{ if has .Type.Name (list "Duration" "IntOrString") }}{{ $words = true }}{{ end -}}
{{- range .Validation }}
{{- $v := . -}}
{{- $item := hasPrefix "items:" $v }}{{ $v = trimPrefix "items:" $v }}{{ $each = ternary "each " "" $item -}}
{{- $value := regexReplaceAll "^[A-Za-z]+: " $v "" -}}
{{- $filled := contains (ternary "items:MinLength: 1" "\nMinLength: 1" $item) (printf "\n%s" $all) -}}
{{- if hasPrefix "Required" $v }}{{ if not $written }}{{ $rules = prepend $rules "required" }}{{ end }}
{{- else if hasPrefix "Enum" $v }}{{ if not $written }}{{ $rules = append $rules (printf "%sone of %s" $each (regexReplaceAll "([A-Za-z0-9]+)" ($value | trimAll "[]" | replace " " ", ") "`${1}`")) }}{{ end }}
{{- else if hasPrefix "MinLength" $v }}
{{- else if hasPrefix "MaxLength" $v }}{{ if not $words }}{{ $rules = append $rules (printf "%s%s %s characters" $each (ternary "1 to" "at most" $filled) $value) }}{{ end }}
{{- else if hasPrefix "MinItems" $v }}
{{- else if hasPrefix "MaxItems" $v }}{{ $rules = append $rules (printf "%s %s" (ternary "1 to" "at most" (contains "MinItems: 1" $all)) $value) }}
{{- else if hasPrefix "MaxProperties" $v }}{{ if not $written }}{{ $rules = append $rules (printf "at most %s" $value) }}{{ end }}
{{- else if hasPrefix "Minimum" $v }}{{ if not $written }}{{ $least = float64 $value | printf "%.0f" }}{{ end }}
{{- else if hasPrefix "Maximum" $v }}{{ $most = float64 $value | printf "%.0f" }}
{{- else if hasPrefix "Pattern" $v }}{{ $rules = append $rules (printf "%smatches %s" $each $value) }}
{{- else if not (regexMatch "^(Optional|Type|MinProperties|XIntOrString|XPreserveUnknownFields|XValidation|Schemaless)" $v) }}{{ $rules = append $rules $v }}
{{- end }}{{ end }}
{{- /* The rules of a type are in its own section. */ -}}
{{- $typed := list }}
{{- range list .Type .Type.UnderlyingType }}{{ if . }}{{ range index .Markers "kubebuilder:validation:XValidation" }}{{ $typed = append $typed .Message }}{{ end }}{{ end }}{{ end }}
{{- range index .Markers "kubebuilder:validation:XValidation" }}{{ if and (not .FieldPath) (not (has .Message $typed)) }}
{{- $rules = append $rules .Message }}{{ end }}{{ end }}
{{- range index .Markers "kubebuilder:validation:items:XValidation" }}{{ $rules = append $rules .Message }}{{ end }}
{{- if and $least $most }}{{ $rules = append $rules (printf "from %s to %s" $least $most) }}
{{- else if $least }}{{ $rules = append $rules (printf "%s or more" $least) }}
{{- else if $most }}{{ $rules = append $rules (printf "%s or less" $most) }}{{ end }}
{{- if regexMatch "e\\+[0-9]+$" $default }}{{ $default = float64 $default | printf "%.0f" }}{{ end }}
{{- if $default }}{{ $rules = append $rules (printf "default `%s`" $default) }}{{ end }}
{{- range $rules | uniq }}; {{ regexReplaceAll ", in hours, minutes, and seconds, .*" . "" | trimPrefix "must be " }}{{ end -}}
{{- end }}{{ end -}}
