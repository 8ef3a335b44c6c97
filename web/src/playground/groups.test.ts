import { expect, test } from "vitest";
import type { WhatifObject } from "../types.gen";
import { grouped } from "./groups";

const object = (name: string, from: string[], to: string[], more: Partial<WhatifObject> = {}): WhatifObject => ({
  kind: "Deployment", resource: "deployments.apps", namespace: "shop", name, transition: "Moved",
  values: [{ field: "annotations", key: "placement.berth.dev/clusters", from: JSON.stringify(from), to: JSON.stringify(to), policy: "p" }], ...more,
});

const names = (objects: WhatifObject[]) => grouped(objects).map((g) => [g.objects.map((o) => o.name).join(), g.isSame]);

test("objects of which the same clusters come and go are in one group, the largest first", () => {
  expect(names([
    object("a", ["eu-1", "eu-2"], ["eu-1", "us-1"]),
    object("b", ["eu-1"], ["us-1"]),
    object("c", ["eu-2", "eu-3"], ["us-1", "eu-3"]),
    object("d", ["eu-1"], ["us-1"]),
    object("e", ["eu-1"], ["us-1"], { transition: "Pending" }),
    object("f", ["eu-1"], ["us-2"]),
    object("g", ["eu-1"], ["us-1"]),
  ])).toEqual([["b,d,g", true], ["a,c", false], ["f", true], ["e", true]]);
});

test("objects that wait already for different clusters are in different groups", () => {
  const [one] = object("a", ["eu-1"], ["us-1"]).values ?? [];
  const planned = (name: string, to: string) => object(name, [], [], { values: [{ ...one!, planned: { to } }] });
  expect(names([planned("a", '["us-2"]'), planned("b", '["us-3"]'), planned("c", '["us-2"]')])).toEqual([["a,c", true], ["b", true]]);
});

test("other values and messages count as a whole", () => {
  const labeled = (name: string, to: string) => object(name, [], [], { values: [{ field: "labels", key: "tier", from: null, to, policy: "p" }] });
  expect(names([labeled("a", "gold"), labeled("b", "silver"), labeled("c", "gold")])).toEqual([["a,c", true], ["b", true]]);
  const denied = (name: string, reason: string) => object(name, [], [], { transition: "Denied", values: [], reasons: [reason] });
  expect(names([denied("a", "no"), denied("b", "no region")])).toEqual([["a", true], ["b", true]]);
});
