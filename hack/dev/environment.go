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

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/test/controlplane"
)

const (
	// operatorUser and operatorGroups are the identity of the operator's ServiceAccount, so that the operator has
	// exactly the permissions that config/ grants.
	operatorUser      = "system:serviceaccount:" + operatorNamespace + ":berth-controller-manager"
	operatorNamespace = "berth-system"

	// deliveryRole is the ClusterRole with the permissions for delivery with Karmada.
	deliveryRole = "berth-delivery-karmada"

	establishTimeout = time.Minute

	// heartbeat is the interval at which a long start reports progress.
	heartbeat = 10 * time.Second
)

var operatorGroups = []string{"system:serviceaccounts", "system:serviceaccounts:" + operatorNamespace}

// environmentOptions configure what to start.
type environmentOptions struct {
	root string
	// dir is the directory for state and logs.
	dir string
	// manager is the path of the operator's binary.
	manager string
	// cluster is the user's cluster, as chooseCluster returns it; nil selects a local control plane.
	cluster *kubectl
	// controllers also starts kube-controller-manager and kube-scheduler in a local control plane.
	controllers bool
	progress    func(string)
}

// environment is a cluster with Berth in it.
type environment struct {
	// plane is the local control plane; nil if the cluster is the user's.
	plane    *controlplane.ControlPlane
	kubectl  kubectl
	operator *operator
	// installed reports whether parts of Berth may be installed in a user's cluster.
	installed bool
	// credentials are the files with copies of the user's credentials. They are kept if something is left in the
	// cluster.
	credentials []string
}

// startEnvironment starts a local control plane unless the user provides a cluster. It installs config/dev, starts the
// operator, and returns when the operator is ready. If it returns an error, nothing is left running or, in a user's
// cluster, installed.
func startEnvironment(ctx context.Context, o environmentOptions) (_ *environment, err error) {
	if _, err := os.Stat(o.manager); err != nil {
		return nil, fmt.Errorf("the operator is not built: run make build: %w", err)
	}
	at, err := chooseEndpoint()
	if err != nil {
		return nil, err
	}
	e := &environment{}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.stop())
		}
	}()
	report := o.progress
	var reporting sync.Mutex
	o.progress = func(line string) {
		reporting.Lock()
		defer reporting.Unlock()
		report(line)
	}
	defer keepTelling(o.progress)()

	var operatorKubeconfig []byte
	if o.cluster != nil {
		e.kubectl = *o.cluster
		e.credentials = []string{o.cluster.kubeconfig, operatorKubeconfigFile(o.dir)}
		if operatorKubeconfig, err = os.ReadFile(o.cluster.kubeconfig); err != nil {
			return nil, fmt.Errorf("reading the kubeconfig: %w", err)
		}
		o.progress("Checking that the API server reaches " + at.webhookURL())
		if err := checkReachable(ctx, e.kubectl, o.dir, at); err != nil {
			return nil, err
		}
	} else {
		components := "etcd and kube-apiserver"
		if o.controllers {
			components = "etcd, kube-apiserver, kube-controller-manager and kube-scheduler"
		}
		o.progress("Starting " + components + " (logs: " + filepath.Join(o.dir, "logs") + ")")
		if operatorKubeconfig, err = e.startCluster(ctx, o); err != nil {
			return nil, err
		}
	}

	o.progress("Installing config/dev")
	if err := e.install(ctx, o.controllers); err != nil {
		return nil, err
	}

	o.progress("Starting the operator (log: " + operatorLog(o.dir) + ")")
	if e.operator, err = startOperator(ctx, o.manager, operatorDir(o.dir), operatorKubeconfig, at, o.progress); err != nil {
		return nil, err
	}
	return e, nil
}

// keepTelling reports the elapsed time at every heartbeat until the returned function is called.
func keepTelling(progress func(string)) (stop func()) {
	started := time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(heartbeat)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				progress(fmt.Sprintf("… %s elapsed", time.Since(started).Round(time.Second)))
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// startCluster starts the local control plane and returns the operator's kubeconfig.
func (e *environment) startCluster(ctx context.Context, o environmentOptions) ([]byte, error) {
	plane, err := controlplane.Start(ctx, controlplane.Options{Dir: o.dir, ControllerManager: o.controllers, Scheduler: o.controllers})
	if err != nil {
		return nil, err
	}
	e.plane = plane
	admin, err := plane.Kubeconfig(controlplane.AdminUser, "system:masters")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(o.dir, "kubeconfig")
	if err := os.WriteFile(file, admin, 0o600); err != nil {
		return nil, fmt.Errorf("writing the administrator's kubeconfig: %w", err)
	}
	e.kubectl = kubectl{path: plane.KubectlPath(), kubeconfig: file, dir: o.root}
	return plane.Kubeconfig(operatorUser, operatorGroups...)
}

// install applies the CRDs and RBAC, and waits until the API server serves the CRDs.
func (e *environment) install(ctx context.Context, controllers bool) error {
	e.installed = e.plane == nil
	// Apply server-side, because large CRDs exceed the size limit of the annotation of client-side apply.
	applied, err := e.kubectl.get(ctx, "apply", "--server-side", "--force-conflicts", "-k", "config/dev", "-o", "name")
	if err != nil {
		return fmt.Errorf("installing config/dev: %w", err)
	}
	crds := slices.DeleteFunc(strings.Fields(applied), func(name string) bool { return !strings.HasPrefix(name, "customresourcedefinition.") })
	if len(crds) == 0 {
		return errors.New("installing config/dev: it has no CustomResourceDefinition: run make manifests")
	}
	for _, state := range controlplane.DefinitionStates {
		wait := append([]string{"wait", "--for=" + state, "--timeout=" + establishTimeout.String()}, crds...)
		if _, err := e.kubectl.get(ctx, wait...); err != nil {
			return fmt.Errorf("waiting for the CustomResourceDefinitions: %w", err)
		}
	}
	if e.plane == nil || controllers {
		return nil
	}
	// Without kube-controller-manager, ClusterRoles are not aggregated, so bind the roles directly. The story creates the
	// second one.
	for _, role := range []string{"berth-dev-wide", deliveryRole} {
		if _, err := e.kubectl.get(ctx, "create", "clusterrolebinding", role, "--clusterrole="+role, "--user="+operatorUser); err != nil {
			return fmt.Errorf("granting the operator its rights: %w", err)
		}
	}
	return nil
}

// stop stops the operator, and then a local control plane. From a user's cluster it removes Berth with all policies and
// quotas. It may be called on an environment that is only partly started.
func (e *environment) stop() error {
	// The cleanup must run even if the caller's context has ended. The commands have timeouts.
	ctx := context.Background()
	var errs []error
	if e.operator != nil {
		if e.installed {
			errs = append(errs, removePolicies(ctx, e.kubectl))
		}
		errs = append(errs, e.operator.stop())
	}
	if e.installed {
		errs = append(errs, removeInstallation(ctx, e.kubectl))
	}
	if e.plane != nil {
		errs = append(errs, e.plane.Stop())
	}
	if err := errors.Join(errs...); errors.Is(err, errNotRemoved) {
		return err
	}
	for _, file := range e.credentials {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("removing a copy of your credentials: %w", err))
		}
	}
	return errors.Join(errs...)
}

func operatorDir(dir string) string { return filepath.Join(dir, "operator") }

func operatorKubeconfigFile(dir string) string { return filepath.Join(operatorDir(dir), "kubeconfig") }

func operatorLog(dir string) string {
	return filepath.Join(operatorDir(dir), "logs", operatorName+".log")
}
