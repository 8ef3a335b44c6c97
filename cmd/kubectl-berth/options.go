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
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/spf13/pflag"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/certs"
	"github.com/berth-dev/berth/internal/configuration"
	"github.com/berth-dev/berth/internal/input"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/simulation"
)

// simulationFlags are the flags of the commands that decide objects.
type simulationFlags struct {
	genericiooptions.IOStreams
	flags *genericclioptions.ConfigFlags

	// config is the path of the manager's configuration file; empty for none. berthNamespace is Berth's own namespace.
	config, berthNamespace string
	// predicates are the enabled ones; empty for the manager's default. from are the paths of a snapshot or of manifests to read in place of
	// the cluster of the kubeconfig.
	predicates, from []string
}

func (f *simulationFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.from, "from", nil,
		"A snapshot, or files and directories with manifests, in place of the cluster that the kubeconfig names.")
	f.addSettings(flags)
}

// addSettings adds the flags for the manager's settings: --config, --predicates, and --berth-namespace.
func (f *simulationFlags) addSettings(flags *pflag.FlagSet) {
	flags.StringVar(&f.config, "config", "", "The manager's configuration file, for its inventories, podTemplates, placements, and "+
		"predicates.")
	flags.StringSliceVar(&f.predicates, "predicates", nil, "The value of the manager's flag --predicates. Without it, its default.")
	flags.StringVar(&f.berthNamespace, "berth-namespace", "berth-system", "Berth's own namespace. Policies match nothing in it.")
}

// settings returns the options of a simulation, without the key that verifies records, and the inventories, as the flags and the manager's
// configuration file set them.
func (f *simulationFlags) settings() (simulation.Options, *replication.Inventories, error) {
	out := simulation.Options{
		OwnNamespace: f.berthNamespace,
		Identity:     authenticationv1.UserInfo{Username: "system:serviceaccount:" + f.berthNamespace + ":berth-controller-manager"},
	}
	config := &configuration.ManagerConfiguration{}
	var err error
	if f.config != "" {
		if config, err = configuration.Load(f.config); err != nil {
			return out, nil, fmt.Errorf("--config: %w", err)
		}
	}
	inventories, err := config.ClusterInventories()
	if err != nil {
		return out, nil, fmt.Errorf("--config: %s: %w", f.config, err)
	}
	if out.Templates, err = config.Templates(); err != nil {
		return out, nil, fmt.Errorf("--config: %s: %w", f.config, err)
	}
	if out.ClusterLists, err = config.ClusterLists(); err != nil {
		return out, nil, fmt.Errorf("--config: %s: %w", f.config, err)
	}
	if out.Predicates, err = f.allowedPredicates(config); err != nil {
		return out, nil, err
	}
	return out, inventories, nil
}

// allowedPredicates returns the predicates of --predicates, or the manager's default ones, with their arguments in the configuration.
func (f *simulationFlags) allowedPredicates(config *configuration.ManagerConfiguration) (*predicates.Set, error) {
	registry, err := predicates.NewRegistry()
	if err != nil {
		return nil, err
	}
	names := f.predicates
	if len(names) == 0 {
		names = registry.Default()
	}
	out, err := registry.New(names, config.PredicateArguments()...)
	if err != nil {
		return nil, fmt.Errorf("predicates: %w", err)
	}
	return out, nil
}

// cluster returns the cluster that --from contains or that the kubeconfig names, and the options of its simulation, which the other flags
// and the manager's configuration file set, also for a snapshot. For an API server, they include the key that verifies records, if the user
// may read it.
func (f *simulationFlags) cluster(ctx context.Context) (simulation.Cluster, simulation.Options, error) {
	simulation.SetGarbageCollector()
	options, inventories, err := f.settings()
	if err != nil {
		return nil, options, err
	}
	if len(f.from) > 0 {
		cluster, err := f.recorded(inventories)
		return cluster, options, err
	}
	config, err := f.flags.ToRESTConfig()
	if err != nil {
		return nil, options, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	cluster, err := f.live(ctx, config, inventories, &options)
	if err != nil {
		return nil, options, err
	}
	return cluster, options, nil
}

// live returns the cluster behind an API server. It sets options.Keyring to the key that verifies records; to nil, without an error, if the
// user may not read the key or it does not exist.
func (f *simulationFlags) live(
	ctx context.Context, config *rest.Config, inventories *replication.Inventories, options *simulation.Options,
) (*simulation.Live, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 100
	cluster, err := simulation.NewLive(ctx, config, inventories)
	if err != nil {
		return nil, err
	}
	options.Keyring, err = f.keyring(ctx, config)
	return cluster, err
}

// simulate returns a simulation of the cluster that --from contains or that the kubeconfig names.
func (f *simulationFlags) simulate(ctx context.Context) (*simulation.Simulation, error) {
	cluster, options, err := f.cluster(ctx)
	if err != nil {
		return nil, err
	}
	return simulation.New(ctx, cluster, options)
}

// recorded returns the cluster of the snapshot that --from names, or of the manifests in its files and directories.
func (f *simulationFlags) recorded(inventories *replication.Inventories) (*simulation.Static, error) {
	if len(f.from) == 1 {
		snapshot, err := readSnapshot(f.from[0])
		if err != nil {
			return nil, fmt.Errorf("--from: %s: %w", f.from[0], err)
		}
		if snapshot != nil {
			return snapshot.Cluster(inventories)
		}
	}
	objects, err := f.manifests(&resource.FilenameOptions{Filenames: f.from, Recursive: true})
	if err != nil {
		return nil, fmt.Errorf("--from: %w", err)
	}
	return simulation.NewStatic(simulation.KubernetesDiscovery(), inventories, objects...)
}

// Limits of snapshots, in bytes: maxSnapshot for all, and for a compressed one, because a few MiB can stand for many GiB, maxRatio
// times its size in the file, or minSnapshot if that is more. Snapshots of objects that differ in nothing but their names are compressed
// to a hundredth.
const (
	maxSnapshot = 4 << 30
	minSnapshot = 64 << 20
	maxRatio    = 200
)

// readSnapshot reads a snapshot, which is compressed if the path ends with .gz. It returns nil without an error for a path of another file,
// of a directory, or of nothing.
func readSnapshot(path string) (*simulation.Snapshot, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		// Reading manifests gives a better error, or reads a directory.
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	reader := input.Limit(file, maxSnapshot, fmt.Errorf("the file has more than %s, which is too much for one snapshot: leave out "+
		"--from to read the cluster itself", input.Size(maxSnapshot)))
	if strings.HasSuffix(path, ".gz") {
		uncompressed, err := gzip.NewReader(file)
		if err != nil {
			return nil, fmt.Errorf("the name of the file ends with .gz, but its content is not compressed with gzip: %w", err)
		}
		reader = uncompressedUpTo(uncompressed, info.Size())
	}
	buffered := bufio.NewReader(reader)
	// The plugin writes the type first.
	if start, _ := buffered.Peek(len(snapshotStart)); string(start) != snapshotStart {
		return nil, nil
	}
	text, err := io.ReadAll(buffered)
	if err != nil {
		return nil, err
	}
	return simulation.DecodeSnapshot(text)
}

// uncompressedUpTo returns a reader of a decompressed snapshot that fails after more bytes than are plausible for the compressed size in
// bytes, or than any snapshot may have.
func uncompressedUpTo(reader io.Reader, compressed int64) io.Reader {
	limit := max(compressed*maxRatio, minSnapshot)
	if limit >= maxSnapshot {
		return input.Limit(reader, maxSnapshot, fmt.Errorf("the file has more than %s when it is decompressed, which is too much for one "+
			"snapshot: leave out --from to read the cluster itself", input.Size(maxSnapshot)))
	}
	return input.Limit(reader, limit, fmt.Errorf("the file has more than %s when it is decompressed, which is so much for a file of %s that "+
		"it may have been made to fill the memory: if you trust it, decompress it with gunzip, and name that file by --from",
		input.Size(limit), input.Size(compressed)))
}

// snapshotStart is the text with which each snapshot begins, when it is decompressed.
const snapshotStart = `{"kind":"` + simulation.SnapshotKind + `"`

// keyring returns the manager's key that verifies records; nil without an error if the user may not read it, or it does not exist.
func (f *simulationFlags) keyring(ctx context.Context, config *rest.Config) (*placement.Keyring, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	secret, err := client.CoreV1().Secrets(f.berthNamespace).Get(ctx, certs.KeySecretName, metav1.GetOptions{})
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Secret %s/%s, whose key verifies the annotation %s of objects: %w",
			f.berthNamespace, certs.KeySecretName, placementv1.RequestedAnnotation, err)
	}
	return certs.KeyringOf(secret)
}

// manifests returns the objects in files as they are written, without asking a cluster for them. It is no error if the files have none.
func (f *simulationFlags) manifests(files *resource.FilenameOptions) ([]*unstructured.Unstructured, error) {
	builder, err := withFiles(resource.NewBuilder(f.flags).Unstructured().Local().Flatten(), files, f.In, input.MaxText)
	if err != nil {
		return nil, err
	}
	return collect(builder)
}

// existing returns the objects of the cluster that the arguments, TYPE/NAME or TYPE NAME, name. It is an error if one does not exist. For
// an API server, TYPE alone names all objects of the type in the namespace. cluster may be nil for the API server of the kubeconfig.
func (f *simulationFlags) existing(ctx context.Context, cluster simulation.Cluster, args []string) ([]*unstructured.Unstructured, error) {
	namespace, _, err := f.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading the namespace of the kubeconfig: %w", err)
	}
	static, ok := cluster.(*simulation.Static)
	if !ok {
		builder := resource.NewBuilder(f.flags).Unstructured().NamespaceParam(namespace).DefaultNamespace()
		return collect(builder.ResourceTypeOrNameArgs(true, args...).Latest().Flatten())
	}
	if len(args) == 2 && !strings.Contains(args[0], "/") {
		args = []string{args[0] + "/" + args[1]}
	}
	var out []*unstructured.Unstructured
	for _, arg := range args {
		typeName, name, ok := strings.Cut(arg, "/")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q does not name an object: write TYPE/NAME, for example deployment/web", arg)
		}
		found, err := simulation.FindType(static.Catalog(), typeName)
		if err != nil {
			return nil, err
		}
		in := namespace
		if !found.Namespaced {
			in = ""
		}
		obj, err := static.Get(ctx, found.GroupVersionResource, in, name)
		if err != nil {
			return nil, err
		}
		if obj == nil {
			return nil, fmt.Errorf("%s %q is not in --from: name its namespace by -n, or explain a manifest of it by kubectl berth explain -f",
				found.GroupResource(), name)
		}
		out = append(out, obj)
	}
	return out, nil
}

// collect returns the objects that a builder finds.
func collect(builder *resource.Builder) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	err := builder.Do().Visit(func(info *resource.Info, err error) error {
		if err != nil {
			return err
		}
		if obj, ok := info.Object.(*unstructured.Unstructured); ok {
			out = append(out, obj)
		}
		return nil
	})
	return out, err
}

// objectFlags select the objects that a command simulates: those that exist, named by arguments, or manifests.
type objectFlags struct {
	simulationFlags
	files resource.FilenameOptions
}

func (f *objectFlags) addFlags(flags *pflag.FlagSet) {
	f.simulationFlags.addFlags(flags)
	flags.StringSliceVarP(&f.files.Filenames, "filename", "f", nil, "Files, directories or - with manifests of objects, which need not exist "+
		"in the cluster.")
	flags.BoolVarP(&f.files.Recursive, "recursive", "R", false, "Read directories of --filename recursively.")
}

// selected returns the selected objects, those of manifests as they are written, and the simulation that decides them. It is an error to
// name both arguments and files, or neither.
func (f *objectFlags) selected(ctx context.Context, args []string) (*simulation.Simulation, []*unstructured.Unstructured, error) {
	if (len(args) == 0) == (len(f.files.Filenames) == 0) {
		return nil, nil, errors.New("name either an object, for example deployment/web, or a file with -f")
	}
	s, err := f.simulate(ctx)
	if err != nil {
		return nil, nil, err
	}
	var objects []*unstructured.Unstructured
	if len(args) > 0 {
		objects, err = f.existing(ctx, s.Cluster(), args)
	} else {
		objects, err = f.manifests(&f.files)
	}
	return s, objects, err
}
