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
		Own     []metrics.Metric
		Library []libraryMetric
	}{metrics.All(), library})
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
	{"controller_runtime_webhook_requests_total", "webhook, code", "Admission requests that reached this replica, by path of the webhook " +
		"and HTTP status; 503 while it is not ready."},
	{"controller_runtime_webhook_latency_seconds", "webhook", "Time to answer them, decoding and encoding included; a histogram."},
	{"controller_runtime_webhook_requests_in_flight", "webhook", "Requests that wait for an answer now."},
	{"controller_runtime_webhook_panics_total", "", "Requests during which the handler panicked; should stay 0."},
	{"controller_runtime_reconcile_total", "controller, result", "Passes of a controller: success, error, requeue, requeue_after."},
	{"controller_runtime_reconcile_errors_total", "controller", "Passes that failed and are tried again."},
	{"controller_runtime_terminal_reconcile_errors_total", "controller", "Passes that failed for good, until something changes."},
	{"controller_runtime_reconcile_time_seconds", "controller", "Time of one pass; a histogram."},
	{"controller_runtime_active_workers", "controller", "Passes under way."},
	{"workqueue_depth", "name, controller, priority", "What waits for a controller. What remediation has before it is name=\"remediation\"."},
	{"workqueue_queue_duration_seconds", "name, controller", "How long it waited; a histogram."},
	{"workqueue_longest_running_processor_seconds", "name, controller", "The age of the oldest pass under way: one that hangs."},
	{"workqueue_retries_total", "name, controller", "What was put back after a failure."},
	{"rest_client_requests_total", "code, method, host", "Calls to the API server, by status: 429 is its priority and fairness, 403 a right that is missing."},
	{"leader_election_master_status", "name", "1 on the replica that leads, 0 on the others; name is berth.placement.berth.dev."},
}

var page = template.Must(template.New("page").Funcs(template.FuncMap{"labels": labels}).Parse(`# Metrics

<!-- Written by make generate from internal/metrics; do not edit. -->

Served at ` + "`--metrics-bind-address`, at `/metrics`" + `. Every replica is scraped by itself: add up what each replica counted, and take
the maximum of what only the leader tells. The series of a policy or quota go with it. The alerts in ` + "`config/prometheus`" + ` and
the dashboard in ` + "`config/grafana`" + ` are made of these.

| metric | type | labels | told by | |
| --- | --- | --- | --- | --- |
{{- range .Own}}
| ` + "`{{.Name}}`" + ` | {{.Type}} | {{labels .Labels}} | {{.Reporter}} | {{.Help}} |
{{- end}}

## Of the libraries

Berth is built on controller-runtime and client-go. Of what these tell, this is worth a look:

| metric | labels | |
| --- | --- | --- |
{{- range .Library}}
| ` + "`{{.Name}}`" + ` | {{.Labels}} | {{.What}} |
{{- end}}

Besides, ` + "`go_*` and `process_*`" + ` tell of memory, goroutines and CPU.
`))

// labels returns the names of labels, each with its values if these are known.
func labels(all []metrics.Label) string {
	out := make([]string, len(all))
	for i, l := range all {
		out[i] = "`" + l.Name + "`"
		if len(l.Values) > 0 {
			out[i] += " (" + strings.Join(l.Values, ", ") + ")"
		}
	}
	return strings.Join(out, ", ")
}
