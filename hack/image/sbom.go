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
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// writeSBOM writes the list of the modules in a binary, which the Go tool recorded there, in the SPDX 2.3 format.
func writeSBOM(o options, binary string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	const root = "berth"
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      filepath.Base(binary) + " " + o.version,
		DocumentNamespace: fmt.Sprintf("https://github.com/berth-dev/berth/spdx/%s/%s", o.version, filepath.Base(binary)),
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "hack/image"}}, Created: o.date.UTC().Format(time.RFC3339),
		},
		Packages:      []*spdx.Package{pkg(root, info.Main.Path, o.version)},
		Relationships: []*spdx.Relationship{relation("DOCUMENT", common.TypeRelationshipDescribe, root)},
	}
	std := pkg("go", "stdlib", strings.TrimPrefix(info.GoVersion, "go"))
	doc.Packages = append(doc.Packages, std)
	doc.Relationships = append(doc.Relationships, relation(root, common.TypeRelationshipDependsOn, "go"))
	for i, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		id := fmt.Sprintf("module-%d", i)
		doc.Packages = append(doc.Packages, pkg(id, m.Path, m.Version))
		doc.Relationships = append(doc.Relationships, relation(root, common.TypeRelationshipDependsOn, id))
	}
	file, err := os.Create(binary + ".spdx.json")
	if err != nil {
		return err
	}
	defer file.Close()
	if err := json.Write(doc, file, json.Indent("  ")); err != nil {
		return err
	}
	return file.Close()
}

func pkg(id, path, version string) *spdx.Package {
	return &spdx.Package{
		PackageSPDXIdentifier: common.ElementID(id), PackageName: path, PackageVersion: version,
		PackageDownloadLocation: "NOASSERTION", PackageLicenseConcluded: "NOASSERTION", PackageLicenseDeclared: "NOASSERTION",
		PackageCopyrightText: "NOASSERTION",
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: fmt.Sprintf("pkg:golang/%s@%s", path, version),
		}},
	}
}

func relation(from, kind, to string) *spdx.Relationship {
	return &spdx.Relationship{
		RefA: common.MakeDocElementID("", from), Relationship: kind, RefB: common.MakeDocElementID("", to),
	}
}
