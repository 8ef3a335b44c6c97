import { expect, test } from "vitest";
import { assigned, described, labelsIn, pathOf, tried } from "./assignments";

const field = "clusters.cluster.karmada.io/eu-1:metadata.labels.pci-level";

test("a field has one value, is removed, or stays as it is", () => {
  let set = assigned(["nodes/a:spec.unschedulable=true"], field, "3");
  expect(tried(set, field)).toBe("3");
  set = assigned(set, field, "a=b");
  expect(set).toEqual(["nodes/a:spec.unschedulable=true", `${field}=a=b`]);
  expect(tried(set, field)).toBe("a=b");
  set = assigned(set, field, null);
  expect(set).toContain(field);
  expect(tried(set, field)).toBeNull();
  set = assigned(set, field, "");
  expect(tried(set, field)).toBe("");
  set = assigned(set, field, undefined);
  expect(set).toEqual(["nodes/a:spec.unschedulable=true"]);
  expect(tried(set, field)).toBeUndefined();
});

test("a field is not mistaken for another one with a longer name", () => {
  expect(tried([`${field}-old=1`], field)).toBeUndefined();
});

test("labels are found in assignments", () => {
  const object = "clusters.cluster.karmada.io/eu-1";
  expect(pathOf("example.com/tier")).toBe("metadata.labels['example.com/tier']");
  expect(labelsIn([`${object}:${pathOf("a")}=1`, `${object}:${pathOf("b.c/d")}`, `${object}:spec.region=us`, `${object}0:${pathOf("e")}=1`], object)).toEqual(["a", "b.c/d"]);
});

test("assignments are described in words", () => {
  expect([`${field}=1`, field, `${field}=`, `clusters.cluster.karmada.io/eu-1:${pathOf("example.com/tier")}=a:b`, "clusters.cluster.karmada.io/eu-1:metadata.annotations['example.com/gpus']", "clusters.cluster.karmada.io/eu-1:spec.region=us", "nodes/a:spec.unschedulable=true"].map(described)).toEqual([
    "eu-1 has pci-level=1", "eu-1 has no label pci-level", "eu-1 has an empty pci-level", "eu-1 has example.com/tier=a:b", "eu-1 has no annotation example.com/gpus", "eu-1 has spec.region=us", "a is cordoned",
  ]);
});
