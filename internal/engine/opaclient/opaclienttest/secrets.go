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

// Package opaclienttest has what tests of several packages need of the client of OPA's API.
package opaclienttest

import (
	"context"
	"errors"
	"maps"
	"sync"
)

// Secrets is an opaclient.Secrets with Secrets that a test sets. The zero value has none. It is safe for concurrent use.
type Secrets struct {
	mu   sync.Mutex
	data map[string]map[string][]byte // by the name of the Secret and by key
}

// Set replaces a Secret, or deletes it if there is no data.
func (s *Secrets) Set(name string, data map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.data == nil {
		s.data = map[string]map[string][]byte{}
	}
	delete(s.data, name)
	for key, value := range data {
		if s.data[name] == nil {
			s.data[name] = map[string][]byte{}
		}
		s.data[name][key] = []byte(value)
	}
}

// Secret implements opaclient.Secrets. It returns an error if there is no such Secret.
func (s *Secrets) Secret(_ context.Context, name string) (map[string][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.data[name]
	if !ok {
		return nil, errors.New("there is none")
	}
	return maps.Clone(data), nil
}
