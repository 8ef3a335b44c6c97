import { expect, test } from "vitest";
import type { ExplainReason } from "../types.gen";
import { partOf } from "./named";

const reason = (...references: string[]): ExplainReason => ({ policy: "p", values: references.map((reference) => ({ reference, value: null })) });

test.each([
  ['cluster.annotations["example.com/gpus"]', { policy: "p", annotation: "example.com/gpus" }],
  ['number(cluster.labels["pci-level"])', { policy: "p", label: "pci-level" }],
  ["data.clusters[name].labels.region", { policy: "p", label: "region" }],
  ["cluster.region", { policy: "p", field: "region" }],
  ["cluster.ready", undefined],
  ["input.metadata.labels.region", undefined],
  ['split(input.metadata.annotations["a"], ",")', undefined],
  ['cluster.properties["a.region"]', undefined],
])("%s", (reference, want) => {
  expect(partOf([reason(reference)])).toEqual(want);
});

test("the first part that can be set counts, also of an inner reason", () => {
  expect(partOf([{ policy: "p", message: "not terminating" }, { ...reason("cluster.ready"), because: [reason("cluster.zones")] }])).toEqual({ policy: "p", field: "zones" });
});
