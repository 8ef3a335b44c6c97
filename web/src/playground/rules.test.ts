import { describe, expect, it } from "vitest";
import { edited, rulesOf } from "./rules";

const policy = `# The first comment.
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata:
  name: eu # A comment on the name.
spec:
  match:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], resources: [deployments]}
  rules:
  - name: eu
    require:
    - {field: region, operator: In, values: [eu]}
  - name: rest
    deny: no place
`;

const other = "---\napiVersion: v1\nkind: ConfigMap\n# A comment.\nmetadata: {name: x}\n";

describe("rulesOf", () => {
  it("reads the rules", () => {
    expect(rulesOf(other + "---\n" + policy)).toEqual({ policy: "eu", rules: [{ name: "eu", require: [{ field: "region", operator: "In", values: ["eu"] }] }, { name: "rest", deny: "no place" }] });
  });

  it.each([["a: [", "no valid YAML"], ["a: b", "no PlacementPolicy"], [policy.replace("  rules:", "  rego: x\n  rules:"), "Rego"], [policy.replace(/rules:[\s\S]*/, "rules: 1\n"), "no list"]])(
    "says why it can't show %j", (text, want) => {
      expect(rulesOf(text)).toHaveProperty("reason", expect.stringContaining(want));
    });
});

describe("edited", () => {
  it("changes a value, and nothing else", () => {
    expect(edited(policy, { set: [0, "require", 0, "values"], to: ["us", "2"] })).toBe(policy.replace("[eu]", '[us, "2"]'));
  });

  it("keeps other documents", () => {
    expect(edited(other + "---\n" + policy, { set: [0, "name"], to: "europe" })).toBe(other + "---\n" + policy.replace("- name: eu", "- name: europe"));
  });

  it("adds to a list that is not there", () => {
    expect(edited(policy, { set: [0, "prefer", 0], to: { label: "tier", operator: "Exists", weight: 10 } })).toContain("    prefer:\n    - {label: tier, operator: Exists, weight: 10}\n");
  });

  it("removes a list with its last item", () => {
    expect(edited(policy, { remove: [0, "require", 0] })).not.toContain("require");
  });

  it("removes a field without a value", () => {
    expect(edited(policy, { set: [1, "deny"], to: "" })).not.toContain("deny");
  });

  it("moves a rule", () => {
    expect(rulesOf(edited(policy, { move: [1], by: -1 }))).toHaveProperty("rules.0.name", "rest");
    expect(edited(policy, { move: [1], by: 1 })).toBe(policy);
  });

  it("keeps the form of lists", () => {
    const indented = "kind: PlacementPolicy\nspec:\n  rules:\n    - name: eu\n      require:\n        - {field: region, operator: Exists}\n";
    expect(edited(indented, { set: [0, "name"], to: "europe" })).toBe(indented.replace("- name: eu", "- name: europe"));
  });

  it("leaves a text alone that has no policy", () => {
    expect(edited("a: b\n", { remove: [0] })).toBe("a: b\n");
  });
});
