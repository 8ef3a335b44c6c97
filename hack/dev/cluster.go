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
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-dev/berth/test/controlplane"
)

const (
	// kubeconfigVariable is the variable with the kubeconfig of a cluster to use instead of a local control plane.
	kubeconfigVariable = "DEMO_KUBECONFIG"
	// consentVariable is 1 if that cluster may be used without confirmation.
	consentVariable = "DEMO_YES"

	// removeTimeout is kubectl's timeout for deletions. Namespaces take as long as their pods. The API server tries the
	// deletion of a CustomResourceDefinition again with a backoff that can exceed two minutes if the definition was deleted
	// soon after it was created.
	removeTimeout = "--timeout=5m"
)

// listWebhooks and deleteWebhooks are the kubectl arguments that list and delete all webhook configurations of Berth.
var (
	webhookArguments = []string{
		"mutatingwebhookconfigurations,validatingwebhookconfigurations",
		"-l", "app.kubernetes.io/name=berth,app.kubernetes.io/managed-by=berth",
	}
	listWebhooks   = slices.Concat([]string{"get", "-o", "name"}, webhookArguments)
	deleteWebhooks = slices.Concat([]string{"delete"}, webhookArguments)
)

// deleteDefinitions are the kubectl arguments that delete the definitions of definitionFiles, and leave alone those of the projects
// themselves.
var deleteDefinitions = []string{"delete", removeTimeout, "customresourcedefinitions", "-l", "app.kubernetes.io/part-of=berth-demo"}

// deleteInstallation are the kubectl arguments that delete the objects of config/dev.
var deleteInstallation = []string{"delete", "--ignore-not-found", removeTimeout, "-k", "config/dev"}

// deleteObjects returns the kubectl arguments that delete objects.
func deleteObjects(objects []string) []string {
	return slices.Concat([]string{"delete", "--ignore-not-found", removeTimeout}, objects)
}

// chooseCluster returns a kubectl for the cluster in DEMO_KUBECONFIG, or nil if that variable is not set. It checks
// that Berth can be installed in the cluster, and asks the user for confirmation. It does not change the cluster.
// description describes the command for the confirmation. makes are the objects that the command creates besides those
// of config/dev.
func chooseCluster(ctx context.Context, root, dir string, t terminal, description string, makes ...string) (*kubectl, error) {
	own := os.Getenv(kubeconfigVariable)
	if own == "" {
		// KUBECONFIG may name a control plane of make demo or make dev-up, whose directories are in the repository. Do
		// not warn about those.
		if ignored := os.Getenv("KUBECONFIG"); ignored != "" && filepath.Dir(filepath.Dir(ignored)) != root {
			fmt.Fprintf(t.out, "KUBECONFIG=%s is not used: a local control plane is started. To use a cluster, set %s.\n",
				ignored, kubeconfigVariable)
		}
		return nil, nil
	}
	path, err := controlplane.Binary("kubectl")
	if err != nil {
		return nil, err
	}
	k, name, err := freeze(ctx, kubectl{path: path, kubeconfig: own, dir: root}, filepath.Join(dir, "kubeconfig"))
	if err != nil {
		return nil, err
	}
	if err := checkInstallable(ctx, k, name, makes); err != nil {
		return nil, err
	}
	fmt.Fprintf(t.out, "Using the cluster of %s=%s: %s\n", kubeconfigVariable, own, name)
	switch {
	case os.Getenv(consentVariable) == "1":
	case !t.interactive:
		return nil, fmt.Errorf("there is no terminal to ask whether %s may be used: set %s=1 to use it", name, consentVariable)
	default:
		answer, err := t.ask(ctx, description+"\nThe operator runs on this machine with the rights of that kubeconfig, and may read and patch "+
			"every type.\nUse no cluster that matters. Continue? [y/N] ")
		if err != nil {
			return nil, err
		}
		if answer = strings.ToLower(answer); answer != "y" && answer != "yes" {
			return nil, fmt.Errorf("%s is not used, as you answered; nothing was changed", name)
		}
	}
	return k, nil
}

// freeze copies the current context of k's kubeconfig to file. It returns a kubectl that uses the file, and a name for
// the cluster. So Berth is removed from the cluster in which it was installed, even if the user changes the kubeconfig.
func freeze(ctx context.Context, k kubectl, file string) (*kubectl, string, error) {
	text, err := k.get(ctx, "config", "view", "--minify", "--flatten", "--raw")
	if err != nil {
		return nil, "", fmt.Errorf("reading %s=%s: %w", kubeconfigVariable, k.kubeconfig, err)
	}
	// Remove an earlier file, because it may have other permissions.
	if err := os.RemoveAll(file); err != nil {
		return nil, "", fmt.Errorf("removing an earlier kubeconfig: %w", err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, "", fmt.Errorf("copying the kubeconfig: %w", err)
	}
	k.kubeconfig = file
	name, err := k.get(ctx, "config", "view", "-o", `jsonpath={.clusters[0].cluster.server} (context {.contexts[0].name})`)
	if err != nil {
		return nil, "", err
	}
	return &k, name, nil
}

// checkInstallable returns an error if Berth cannot or must not be installed in the cluster.
func checkInstallable(ctx context.Context, k *kubectl, name string, makes []string) error {
	if _, err := k.get(ctx, "get", "--raw=/readyz"); err != nil {
		return fmt.Errorf("the API server of %s is not ready: %w", name, err)
	}
	can, err := k.run(ctx, "auth", "can-i", "*", "*", "--all-namespaces")
	if err != nil {
		return err
	}
	if can.code != 0 {
		return fmt.Errorf("the user of %s may not do everything in %s, which installing Berth needs: use the kubeconfig of an administrator",
			kubeconfigVariable, name)
	}
	var found []string
	queries := [][]string{{"get", "--ignore-not-found", "-o", "name", "-k", "config/dev"}, listWebhooks}
	if len(makes) > 0 {
		queries = append(queries, append([]string{"get", "--ignore-not-found", "-o", "name"}, makes...))
	}
	for _, args := range queries {
		text, err := k.get(ctx, args...)
		if err != nil {
			return fmt.Errorf("looking for what would be overwritten in %s: %w", name, err)
		}
		found = append(found, strings.Fields(text)...)
	}
	if len(found) > 0 {
		return fmt.Errorf("%s has %s already, which would be overwritten, and removed at the end: use another cluster. "+
			"If an earlier run that was killed left them, remove them, in the directory %s:\n%s", name,
			strings.Join(found, ", "), k.dir, removal(makes))
	}
	return nil
}

// removal returns the commands that remove what a killed run left in the cluster of DEMO_KUBECONFIG, one a line. The webhook
// configurations come first: without the operator, the API server denies changes of objects that policies match.
func removal(makes []string) string {
	commands := [][]string{deleteWebhooks}
	if len(makes) > 0 {
		commands = append(commands, deleteObjects(makes), deleteDefinitions)
	}
	lines := []string{"  export KUBECONFIG=" + quoted(os.Getenv(kubeconfigVariable))}
	for _, args := range append(commands, deleteInstallation) {
		lines = append(lines, "  "+commandLine(args))
	}
	return strings.Join(lines, "\n")
}

// errNotRemoved reports that parts of Berth may be left in a user's cluster.
var errNotRemoved = errors.New("removing Berth from the cluster")

// removePolicies deletes all policies and quotas while the operator runs. The operator then deletes its webhooks.
func removePolicies(ctx context.Context, k kubectl) error {
	const group = ".placement.berth.dev"
	_, err := k.get(ctx, "delete", "--all", removeTimeout, policies+",limitedresources"+group+",clusterscopedquotas"+group)
	_, quotaErr := k.get(ctx, "delete", "--all", "--all-namespaces", removeTimeout, "scopedquotas"+group)
	return errors.Join(err, quotaErr)
}

// removeInstallation deletes the webhook configurations and the objects of config/dev. The operator must have stopped,
// because it would create the webhook configurations again.
func removeInstallation(ctx context.Context, k kubectl) error {
	_, err := k.get(ctx, deleteWebhooks...)
	_, installErr := k.get(ctx, deleteInstallation...)
	if err := errors.Join(err, installErr); err != nil {
		return fmt.Errorf("%w: %w\nRemove it with: %s; %s", errNotRemoved, err, commandLine(deleteWebhooks), commandLine(deleteInstallation))
	}
	return nil
}
