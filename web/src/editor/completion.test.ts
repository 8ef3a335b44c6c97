import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { ValuesView } from "../types.gen";
import { type Known, quoted, type Schema, suggest } from "./completion";
import { placeOf } from "./place";

const schema = JSON.parse(readFileSync("../config/schema/placementpolicy.json", "utf8")) as Schema;

const values: ValuesView = {
  fields: { region: ["eu", "us"] }, labels: { "example.com/tier": ["gold", "silver"], pci: ["1"] }, annotations: {}, properties: { cost: ["3"] }, resources: ["cpu", "memory"],
  nodeLabels: {}, nodes: [], objectLabels: { app: ["web"], region: ["eu"] }, objectAnnotations: { note: ["x"] }, namespaceLabels: { team: ["a"] },
};

const known: Known = { schema, values };

const head = "apiVersion: placement.berth.dev/v1alpha1\nkind: PlacementPolicy\nmetadata:\n  name: a\nspec:\n";

/** at returns what completes a text at the sign |. */
function at(text: string): string[] {
  const whole = head + text, position = whole.indexOf("|");
  const place = placeOf(whole.replace("|", ""), position);
  return place ? suggest(place, known).map((s) => s.text) : [];
}

describe("suggest", () => {
  it.each([
    ["a key of spec", "  ru|", "rules"],
    ["the first key of a map", "  match:\n    |", "resourceRules"],
    ["a key of an item", "  rules:\n  - name: x\n    re|\n", "require"],
    ["a key in braces", "  rules:\n  - require:\n    - {fi|}\n", "field"],
    ["a later key in braces", "  rules:\n  - require:\n    - {field: region, op|}\n", "operator"],
    ["a value of the schema", "  rules:\n  - require:\n    - {field: region, operator: |}\n", "NotIn"],
    ["a value on a line", "  mode: |", "DryRun"],
    ["a label of clusters", "  rules:\n  - require:\n    - {label: |}\n", "example.com/tier"],
    ["a value of a label", "  rules:\n  - require:\n    - {label: example.com/tier, operator: In, values: [|]}\n", "silver"],
    ["a value of a label on lines", "  rules:\n  - require:\n    - label: example.com/tier\n      operator: In\n      values:\n      - |\n", "gold"],
    ["a value of a field", "  rules:\n  - require:\n    - {field: region, operator: In, values: [eu, |]}\n", "us"],
    ["a property", "  rules:\n  - prefer:\n    - {property: c|}\n", "cost"],
    ["a resource", "  rules:\n  - prefer:\n    - {free: |}\n", "memory"],
    ["a label of workloads", "  match:\n    objectSelector:\n      matchLabels:\n        |", "app"],
    ["a value of a label of workloads", "  match:\n    objectSelector: {matchLabels: {app: |}}", "web"],
    ["a label of namespaces", "  match:\n    namespaceSelector: {matchLabels: {t|}}", "team"],
    ["a word of Rego", "  rego: |-\n    package a\n    cl", "clusters"].map((text) => text.replace("|-", ">-")),
  ])("completes %s", (_name, text, want) => {
    expect(at(text!.includes("|") ? text! : `${text}|`)).toContain(want);
  });

  it("suggests no key that is there", () => {
    expect(at("  mode: Enforce\n  |\n  priority: 3\n")).not.toContain("mode");
    expect(at("  mode: Enforce\n  |\n  priority: 3\n")).not.toContain("priority");
  });

  it("knows other documents of the text", () => {
    expect(at("  mode: Enforce\n---\nkind: PlacementPolicy\nspec:\n  rol|\n---\na: [")).toContain("rollout");
  });

  it("suggests nothing in a comment", () => {
    expect(at("  mode: Enforce # |")).toEqual([]);
  });
});

describe("quoted", () => {
  it.each([["eu", "eu"], ["2", '"2"'], ["true", '"true"'], ["a b", '"a b"'], ["1.30", '"1.30"']])("writes %s as %s", (value, want) => {
    expect(quoted(value)).toBe(want);
  });
});
