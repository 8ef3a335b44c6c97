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

package setup

import (
	"cmp"
	"flag"
	"io"
	"strings"
	"testing"
)

func TestOptionsAreChecked(t *testing.T) {
	tests := map[string]struct{ args, want string }{
		"Defaults":            {},
		"Shorter":             {args: "--leader-elect-lease-duration=6s --leader-elect-renew-deadline=4s --leader-elect-retry-period=1s"},
		"LeaseTooShort":       {args: "--leader-elect-lease-duration=10s", want: "--leader-elect-lease-duration 10s: must be longer than --leader-elect-renew-deadline, which is 10s"},
		"DeadlineTooShort":    {args: "--leader-elect-renew-deadline=2100ms", want: "--leader-elect-renew-deadline 2.1s: must be longer than 1.2 times --leader-elect-retry-period, which is 2s"},
		"NoRetry":             {args: "--leader-elect-retry-period=0", want: "--leader-elect-retry-period, which is 0s"},
		"NegativeBound":       {args: "--remediation-max-concurrent=-1", want: "--remediation-max-concurrent -1: must be 0, for no bound, or greater"},
		"NoTimeout":           {args: "--evaluation-timeout=0s", want: "--evaluation-timeout 0s: must be longer than 0"},
		"NoConcurrency":       {args: "--evaluation-concurrency=0", want: "--evaluation-concurrency 0: must be 1 or greater"},
		"NegativePace":        {args: "--remediation-max-per-minute=-1", want: "--remediation-max-per-minute -1: must be 0, for no bound, or greater"},
		"NegativeTTL":         {args: "--quota-reservation-ttl=-1s", want: "must be longer than the API server's --request-timeout"},
		"ShortTTL":            {args: "--quota-reservation-ttl=10s", want: "for flag -quota-reservation-ttl: must be longer than the API server's --request-timeout, 1m by default, and longer than the timeout of the quota webhook, 10s"},
		"TTL":                 {args: "--quota-reservation-ttl=35s"},
		"NoLeaseInParticular": {args: "--leader-elect-lease-duration=0", want: "--leader-elect-lease-duration 0s"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var o Options
			flags := flag.NewFlagSet("", flag.ContinueOnError)
			flags.SetOutput(io.Discard)
			o.Bind(flags)
			switch err := cmp.Or(flags.Parse(strings.Fields(tc.args)), o.checkElection(), o.checkBounds()); {
			case err == nil && tc.want != "":
				t.Errorf("no error, want %q", tc.want)
			case err != nil && (tc.want == "" || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error %q, want %q", err, tc.want)
			}
		})
	}
}
