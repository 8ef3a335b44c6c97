package main

import "testing"

func TestIsPlacement(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want bool
	}{
		"the clusters in another order": {text: `{"clusters":{"b":{"weight":1},"a":{"weight":1}},"rebalance":true}`, want: true},
		"one is missing":                {text: `{"clusters":{"a":{"weight":1}},"rebalance":true}`},
		"one too many":                  {text: `{"clusters":{"a":{"weight":1},"b":{"weight":1},"c":{"weight":1}},"rebalance":true}`},
		"without rebalancing":           {text: `{"clusters":{"a":{"weight":1},"b":{"weight":1}}}`},
		"nothing":                       {text: ""},
	} {
		t.Run(name, func(t *testing.T) {
			if err := isPlacement(test.text, []string{"a", "b"}); (err == nil) != test.want {
				t.Errorf("isPlacement(%s): got error %v, want accepted %v", test.text, err, test.want)
			}
		})
	}
}

func TestCommandLine(t *testing.T) {
	got := commandLine([]string{"get", "events", "--field-selector=a=b,reason!=c", "-o", `jsonpath={.a\.b}`})
	if want := `kubectl get events '--field-selector=a=b,reason!=c' -o 'jsonpath={.a\.b}'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
