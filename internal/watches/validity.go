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

package watches

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
)

// validSink passes objects to another sink without what is no longer valid (replication.Valid). When a part of an object stops being valid,
// it passes the object again without that part. Objects that are always valid it passes as they are.
type validSink struct {
	Sink
	clock clock.WithDelayedExecution

	// mu is held during each call of the other sink for a type whose objects may stop being valid.
	mu sync.Mutex
	// timers has a timer for each object that fires when a part of it stops being valid.
	timers map[validKey]clock.Timer
}

// validKey identifies an object.
type validKey struct {
	resource schema.GroupVersionResource
	name     types.NamespacedName
}

// Valid returns a sink that passes to another one only what is valid of objects at each time. The objects must have the fields of
// WithValidity.
func Valid(sink Sink, now clock.WithDelayedExecution) Sink {
	return &validSink{Sink: sink, clock: now, timers: map[validKey]clock.Timer{}}
}

// WithValidity returns the fields and, if objects of the type say until when they are valid, the field that says so; nil for nil, which
// stands for all fields.
func WithValidity(resource schema.GroupVersionResource, fields *projection.FieldSet) *projection.FieldSet {
	validity, ok := replication.ValidityFields(resource)
	if !ok || fields == nil {
		return fields
	}
	return projection.Union(fields, validity)
}

// begin locks mu for a type whose objects may stop being valid, and returns the function that unlocks it. For another type, it does nothing
// and returns nil.
func (s *validSink) begin(resource schema.GroupVersionResource) (end func()) {
	if _, ok := replication.ValidityFields(resource); !ok {
		return nil
	}
	s.mu.Lock()
	return s.mu.Unlock
}

// Replace implements Sink. It passes on what is valid of the objects.
func (s *validSink) Replace(resource schema.GroupVersionResource, fields *projection.FieldSet, objects []*unstructured.Unstructured) {
	if end := s.begin(resource); end != nil {
		defer end()
		s.forget(resource)
		valid := make([]*unstructured.Unstructured, len(objects))
		for i, o := range objects {
			valid[i] = s.follow(resource, o)
		}
		objects = valid
	}
	s.Sink.Replace(resource, fields, objects)
}

// Put implements Sink. It passes on what is valid of the object.
func (s *validSink) Put(resource schema.GroupVersionResource, object *unstructured.Unstructured) {
	if end := s.begin(resource); end != nil {
		defer end()
		object = s.follow(resource, object)
	}
	s.Sink.Put(resource, object)
}

// Delete implements Sink. It also stops the timer of the object.
func (s *validSink) Delete(resource schema.GroupVersionResource, namespace, name string) {
	if end := s.begin(resource); end != nil {
		defer end()
		s.stop(validKey{resource, types.NamespacedName{Namespace: namespace, Name: name}})
	}
	s.Sink.Delete(resource, namespace, name)
}

// Drop implements Sink. It also stops the timers of all objects of the type.
func (s *validSink) Drop(resource schema.GroupVersionResource) {
	if end := s.begin(resource); end != nil {
		defer end()
		s.forget(resource)
	}
	s.Sink.Drop(resource)
}

// follow returns what is valid of an object now, and starts a timer that, when a part of that stops being valid, passes the rest to the
// other sink. The caller holds mu.
func (s *validSink) follow(resource schema.GroupVersionResource, object *unstructured.Unstructured) *unstructured.Unstructured {
	key := validKey{resource, types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}}
	s.stop(key)
	now := s.clock.Now()
	valid, until := replication.Valid(resource, object, now)
	if until.IsZero() {
		return valid
	}
	// The sink does not own the object after this call.
	later, _ := replication.Valid(resource, object.DeepCopy(), until)
	var timer clock.Timer
	timer = s.clock.AfterFunc(until.Sub(now), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.timers[key] != timer {
			// There is another version of the object, or none.
			return
		}
		delete(s.timers, key)
		s.Sink.Put(resource, later)
	})
	s.timers[key] = timer
	return valid
}

// stop stops the timer of an object. The caller holds mu.
func (s *validSink) stop(key validKey) {
	if timer, ok := s.timers[key]; ok {
		timer.Stop()
		delete(s.timers, key)
	}
}

// forget stops the timers of all objects of a type. The caller holds mu.
func (s *validSink) forget(resource schema.GroupVersionResource) {
	for key := range s.timers {
		if key.resource == resource {
			s.stop(key)
		}
	}
}
