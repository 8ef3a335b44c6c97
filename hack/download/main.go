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

// Command download puts programs of a published release of Berth into a directory, so that they need not be compiled.
// It compares each archive with the SHA-256 checksum in the release's checksums.txt, which it reads from the same URL.
// It exits with 1, after one line with the reason, if it cannot provide a program.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	r := release{out: os.Stdout}
	flag.StringVar(&r.url, "url", "", "URL of the releases: the files of v0.1.0 are at URL/v0.1.0/")
	flag.StringVar(&r.version, "version", "", "version of the release, such as v0.1.0")
	flag.StringVar(&r.dir, "dir", "bin", "directory that receives the programs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, program := range flag.Args() {
		if err := r.provide(ctx, program); err != nil {
			// The errors of tools have several lines.
			reason := strings.Join(strings.Fields(err.Error()), " ")
			fmt.Printf("No released %s, compiling instead (PREBUILT=no skips the attempt): %s\n", filepath.Base(program), reason)
			os.Exit(1)
		}
	}
}
