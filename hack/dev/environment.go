package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/berth-dev/berth/test/controlplane"
)

const (
	// operatorUser and its groups are what the operator's ServiceAccount token would say, so that the operator has the
	// rights that config/ grants it and no others.
	operatorUser      = "system:serviceaccount:" + operatorNamespace + ":berth-controller-manager"
	operatorNamespace = "berth-system"

	establishTimeout = time.Minute
)

// deleteWebhooks are the arguments of kubectl that remove what makes an API server call an operator that is gone.
var deleteWebhooks = []string{
	"delete", "mutatingwebhookconfigurations,validatingwebhookconfigurations",
	"-l", "app.kubernetes.io/name=berth,app.kubernetes.io/managed-by=berth",
}

var operatorGroups = []string{"system:serviceaccounts", "system:serviceaccounts:" + operatorNamespace}

// environment is a cluster with Berth in it.
type environment struct {
	// plane is nil where the cluster is the user's own.
	plane    *controlplane.ControlPlane
	kubectl  kubectl
	operator *operator
}

// startEnvironment starts a control plane in dir, unless the user has set KUBECONFIG to a cluster, installs config/dev,
// starts the operator and returns when it is ready. After an error nothing is left running.
func startEnvironment(ctx context.Context, root, dir string, progress func(string)) (_ *environment, err error) {
	binary := filepath.Join(root, "bin", "manager")
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("the operator is not built: run make build: %w", err)
	}
	e := &environment{}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.stop())
		}
	}()

	var operatorKubeconfig []byte
	if own := userKubeconfig(root); own != "" {
		progress("Using the cluster of KUBECONFIG=" + own)
		operatorKubeconfig, err = e.useCluster(ctx, root, own)
	} else {
		progress("Starting etcd, kube-apiserver, kube-controller-manager and kube-scheduler (logs: " + filepath.Join(dir, "logs") + ")")
		operatorKubeconfig, err = e.startCluster(ctx, root, dir)
	}
	if err != nil {
		return nil, err
	}

	progress("Installing config/dev")
	if err := e.install(ctx); err != nil {
		return nil, err
	}

	progress("Starting the operator (log: " + operatorLog(dir) + ")")
	if e.operator, err = startOperator(ctx, binary, operatorDir(dir), operatorKubeconfig, progress); err != nil {
		return nil, err
	}
	return e, nil
}

// userKubeconfig returns the value of KUBECONFIG if it names a cluster that is not one of ours.
func userKubeconfig(root string) string {
	value := os.Getenv("KUBECONFIG")
	if value == "" {
		return ""
	}
	path, err := filepath.Abs(value)
	if err == nil && (path == filepath.Join(root, ".dev", "kubeconfig") || path == filepath.Join(root, ".demo", "kubeconfig")) {
		return ""
	}
	return value
}

// startCluster returns the operator's kubeconfig.
func (e *environment) startCluster(ctx context.Context, root, dir string) ([]byte, error) {
	plane, err := controlplane.Start(ctx, controlplane.Options{Dir: dir, ControllerManager: true, Scheduler: true})
	if err != nil {
		return nil, err
	}
	e.plane = plane
	admin, err := plane.Kubeconfig(controlplane.AdminUser, "system:masters")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(file, admin, 0o600); err != nil {
		return nil, fmt.Errorf("writing the administrator's kubeconfig: %w", err)
	}
	e.kubectl = kubectl{path: plane.KubectlPath(), kubeconfig: file, dir: root}
	return plane.Kubeconfig(operatorUser, operatorGroups...)
}

// useCluster returns the operator's kubeconfig.
func (e *environment) useCluster(ctx context.Context, root, kubeconfig string) ([]byte, error) {
	path, err := exec.LookPath("kubectl")
	if err != nil {
		if path, err = controlplane.Binary("kubectl"); err != nil {
			return nil, err
		}
	}
	e.kubectl = kubectl{path: path, kubeconfig: kubeconfig, dir: root}
	// The operator takes one file; KUBECONFIG may list several, which may name further ones.
	text, err := e.kubectl.get(ctx, "config", "view", "--minify", "--flatten", "--raw")
	if err != nil {
		return nil, err
	}
	return []byte(text), nil
}

// install applies the CRDs and RBAC, and waits until the API server serves the CRDs.
func (e *environment) install(ctx context.Context) error {
	// Server-side, because the annotation of client-side apply has a limit that big CRDs exceed.
	applied, err := e.kubectl.get(ctx, "apply", "--server-side", "--force-conflicts", "-k", "config/dev", "-o", "name")
	if err != nil {
		return fmt.Errorf("installing config/dev: %w", err)
	}
	wait := []string{"wait", "--for=condition=Established", "--timeout=" + establishTimeout.String()}
	crds := 0
	for name := range strings.FieldsSeq(applied) {
		if strings.HasPrefix(name, "customresourcedefinition.") {
			wait = append(wait, name)
			crds++
		}
	}
	if crds == 0 {
		return errors.New("installing config/dev: it has no CustomResourceDefinition: run make manifests")
	}
	if _, err := e.kubectl.get(ctx, wait...); err != nil {
		return fmt.Errorf("waiting for the CustomResourceDefinitions: %w", err)
	}
	return nil
}

// stop ends the operator, then the control plane if it is ours. It may be called on what is only half started.
func (e *environment) stop() error {
	var errs []error
	if e.operator != nil {
		errs = append(errs, e.operator.stop())
	}
	if e.plane != nil {
		errs = append(errs, e.plane.Stop())
	}
	return errors.Join(errs...)
}

func operatorDir(dir string) string { return filepath.Join(dir, "operator") }

func operatorLog(dir string) string {
	return filepath.Join(operatorDir(dir), "logs", operatorName+".log")
}
