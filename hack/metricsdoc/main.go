/*
Copyright 2026 The Berth Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

// Command metricsdoc generates the list of metrics from their declarations.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/template"

	"github.com/berth-dev/berth/internal/metrics"
)

func main() {
	out := flag.String("out", "docs/metrics.md", "File to write.")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "metricsdoc:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	var text strings.Builder
	err := page.Execute(&text, struct {
		Own     []section
		Long    []metrics.Label
		Library []libraryMetric
	}{sections(metrics.All()), long(metrics.All()), library})
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

// libraryMetric is a metric of a library that Berth uses.
type libraryMetric struct {
	Name, Labels, What string
}

// library are the most useful of the libraries' metrics.
var library = []libraryMetric{
	{"controller_runtime_webhook_requests_total", "webhook, code", "Admission requests that reached this replica; 503 while it is not ready."},
	{"controller_runtime_webhook_latency_seconds", "webhook", "Time to answer them, decoding and encoding included; a histogram."},
	{"controller_runtime_reconcile_errors_total", "controller", "Passes that failed and are tried again."},
	{"workqueue_depth", "name, controller, priority", "What waits for a controller; name=\"remediation\" are existing objects."},
	{"workqueue_longest_running_processor_seconds", "name, controller", "The age of the oldest pass under way: one that hangs."},
	{"rest_client_requests_total", "code, method, host", "Calls to the API server; 429 is its priority and fairness, 403 a missing " +
		"permission."},
	{"leader_election_master_status", "name", "1 on the leader, else 0; name is berth.placement.berth.dev."},
}

// maxValues is the maximum number of values of a label that a list has. The others are below the lists.
const maxValues = 8

var page = template.Must(template.New("page").Funcs(template.FuncMap{"labels": labels, "join": strings.Join}).Parse(`# Metrics

<!-- Written by make generate from internal/metrics; do not edit. -->

At ` + "`/metrics` of `--metrics-bind-address`" + `. Add up what each replica counts, and take the maximum of what only the leader
reports. The series of a policy or quota end with it. ` + "`config/prometheus` has the alerts, and `config/grafana`" + ` the dashboards.

{{- range .Own}}

## {{.Title}}
{{range .Metrics}}
- ` + "`{{.Name}}`" + ` ({{.Type}}{{labels .Labels}}): {{.Help}}
{{- end}}
{{- end}}
{{range .Long}}
` + "`{{.Name}}`" + ` is one of {{join .Values ", "}}.
{{end}}
## Of the libraries

The most useful of controller-runtime and client-go, besides ` + "`go_*` and `process_*`" + `:
{{range .Library}}
- ` + "`{{.Name}}`{{with .Labels}} ({{.}}){{end}}" + `: {{.What}}
{{- end}}
`))

// section has the metrics of one reporter.
type section struct {
	Title   string
	Metrics []metrics.Metric
}

// sections returns the metrics by the replicas that report them.
func sections(all []metrics.Metric) []section {
	out := []section{{Title: "Of each replica"}, {Title: "Of the leader"}}
	for _, m := range all {
		if m.Reporter == metrics.EachReplica {
			out[0].Metrics = append(out[0].Metrics, m)
		} else {
			out[1].Metrics = append(out[1].Metrics, m)
		}
	}
	return out
}

// long returns the labels with too many values for a list, each once.
func long(all []metrics.Metric) []metrics.Label {
	var out []metrics.Label
	for _, m := range all {
		for _, l := range m.Labels {
			known := slices.ContainsFunc(out, func(o metrics.Label) bool { return o.Name == l.Name })
			if len(l.Values) > maxValues && !known {
				out = append(out, l)
			}
		}
	}
	return out
}

// labels returns the names of labels, each with its values if these are few, as they follow the type of a metric.
func labels(all []metrics.Label) string {
	var out strings.Builder
	for _, l := range all {
		out.WriteString("; `" + l.Name + "`")
		if len(l.Values) > 0 && len(l.Values) <= maxValues {
			out.WriteString(": " + strings.Join(l.Values, ", "))
		}
	}
	return out.String()
}
