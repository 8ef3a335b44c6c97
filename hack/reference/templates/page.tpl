{{- define "gvList" -}}
<!-- Written by `make reference` from the comments and markers in api/v1alpha1. Change those. -->

# Reference

Every field of every kind, and every condition and reason. What the kinds are for is in [Concepts](concepts.md), how to
use them in the guides that each kind links to. `kubectl explain` says the same on a cluster.
{{ range . }}{{ $gv := . }}
{{ range $gv.SortedKinds }}- [{{ . }}](#{{ lower . }})
{{ end }}- [Types](#types), of which the kinds are made
- [Conditions](#conditions)
{{ range $gv.SortedKinds }}
{{ template "kind" (dict "type" ($gv.TypeForKind .) "gv" $gv) }}
{{- end }}
## Types
{{ range $gv.SortedTypes }}{{ if not (regexMatch "(PlacementPolicy|LimitedResource|Quota)(Spec|Status)?$" .Name) }}
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

| column of `kubectl get` | from | |
| --- | --- | --- |
{{ range index $type.Markers "kubebuilder:printcolumn" -}}
| {{ upper .Name }}{{ if .Priority }}, with `-o wide`{{ end }} | `{{ .JSONPath }}` | {{ .Description | default "since it was created" }} |
{{ end -}}
{{ range $type.Fields }}{{ if has .Name (list "spec" "status") }}
{{ template "type" (dict "type" .Type "gv" $gv) }}
{{- end }}{{ end }}
{{- end -}}

{{- define "type" -}}
{{- $gv := .gv }}{{ $type := .type -}}
### {{ $type.Name }}

{{ template "text" $type.Doc }}
{{ if $type.Members }}
| field | type | | rules |
| --- | --- | --- | --- |
{{ range $type.Members -}}
| `{{ .Name }}` | {{ template "typeName" .Type }} | {{ template "text" .Doc }} | {{ template "rules" . }} |
{{ end }}
{{- end }}
{{- if $type.EnumValues }}
| value | |
| --- | --- |
{{ range $type.EnumValues -}}
| `{{ .Name }}` | {{ template "text" (regexReplaceAll "^[A-Za-z0-9]+ " (trim .Doc) "") }} |
{{ end }}
{{- else if not $type.Members }}
{{ if $type.UnderlyingType }}A {{ template "typeName" $type.UnderlyingType }}; {{ template "rules" $type }}{{ else }}An object without fields{{ end }}.
{{ end }}
{{- /* Rules that relate fields to each other: the type's own, and those of the type that is inlined into it. */ -}}
{{- $messages := list }}
{{- range $gv.SortedTypes }}{{ $other := . }}{{ $own := eq .Name $type.Name }}
{{- if regexMatch "^Quota(Spec|Status)$" .Name }}{{ range .References }}{{ if eq .Name $type.Name }}{{ $own = true }}{{ end }}{{ end }}{{ end }}
{{- if $own }}{{ range index $other.Markers "kubebuilder:validation:XValidation" }}{{ $messages = append $messages (printf "`%s`: %s" (.FieldPath | trimPrefix ".") .Message) }}{{ end }}{{ end }}
{{- end }}
{{- if and $messages $type.Members }}
Refused besides, with these words:

{{ range $messages | uniq | sortAlpha -}}
- {{ . }}
{{ end }}
{{- end }}
{{- end -}}

{{- /* A comment in a table's cell. */ -}}
{{- define "text" -}}
{{- . | replace "\n\n" "\n" | replace "\n" " " | replace "|" "\\|" | replace "<" "\\<" -}}
{{- end -}}

{{- define "typeName" -}}
{{- if eq .Kind 3 -}}
map of {{ template "typeName" .KeyType }} to {{ template "typeName" .ValueType }}
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
{{- else if eq .Name "Time" -}}
time, as in RFC 3339
{{- else -}}
{{ markdownRenderTypeLink . }}
{{- end -}}
{{- end -}}

{{- /* The rules of one field or type, in words. */ -}}
{{- define "rules" -}}
{{- $rules := list }}{{ $each := "" }}{{ $default := .Default }}{{ $enum := false -}}
{{- range .Validation }}
{{- $v := . | replace "|" "\\|" -}}
{{- $item := hasPrefix "items:" $v }}{{ $v = trimPrefix "items:" $v }}{{ $each = ternary "each " "" $item -}}
{{- $value := regexReplaceAll "^[A-Za-z]+: " $v "" | replace "1e+06" "1000000" -}}
{{- if hasPrefix "Required" $v }}{{ $rules = prepend $rules "required" }}
{{- else if hasPrefix "Enum" $v }}{{ $rules = append $rules (printf "%sone of %s" $each (regexReplaceAll "([A-Za-z0-9]+)" ($value | trimAll "[]" | replace " " ", ") "`${1}`")) }}
{{- else if eq "MinLength: 1" $v }}{{ $rules = append $rules (ternary "none empty" "not empty" $item) }}
{{- else if hasPrefix "MaxLength" $v }}{{ $rules = append $rules (printf "%sat most %s characters" $each $value) }}
{{- else if eq "MinItems: 1" $v }}{{ $rules = append $rules "at least one" }}
{{- else if hasPrefix "MaxItems" $v }}{{ $rules = append $rules (printf "at most %s" $value) }}
{{- else if hasPrefix "MaxProperties" $v }}{{ $rules = append $rules (printf "at most %s" $value) }}
{{- else if hasPrefix "Minimum" $v }}{{ $rules = append $rules (printf "%s or more" $value) }}
{{- else if hasPrefix "Maximum" $v }}{{ $rules = append $rules (printf "%s or less" $value) }}
{{- else if hasPrefix "Pattern" $v }}{{ $rules = append $rules (printf "%smatches %s" $each $value) }}
{{- else if not (regexMatch "^(Optional|Type|MinProperties|XPreserveUnknownFields|XValidation|Schemaless)" $v) }}{{ $rules = append $rules $v }}
{{- end }}{{ end }}
{{- range index .Markers "kubebuilder:validation:XValidation" }}{{ if not .FieldPath }}{{ $rules = append $rules (.Message | replace "|" "\\|") }}{{ end }}{{ end }}
{{- range index .Markers "kubebuilder:validation:items:XValidation" }}{{ $rules = append $rules (.Message | replace "|" "\\|") }}{{ end }}
{{- if $default }}{{ $rules = append $rules (printf "default `%s`" $default) }}{{ end }}
{{- join "; " ($rules | uniq) -}}
{{- end -}}
