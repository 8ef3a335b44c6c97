import { expect, test } from "vitest";
import { listOf, listsOf } from "./changes";

test.each([[null, []], ['["a",["b"]]', ["a", "b"]], ["a,b", undefined], ["[1]", undefined]])("the list in %j is %j", (text, want) => {
  expect(listOf(text)).toEqual(want);
});

test("only changes of clusters have lists", () => {
  const values = { from: null, to: '["eu-1"]' };
  expect(listsOf({ field: "annotations", key: "placement.berth.dev/clusters", ...values })).toEqual({ before: [], after: ["eu-1"] });
  expect(listsOf({ field: "clusters", key: "spec.clusters", ...values })).toBeDefined();
  expect(listsOf({ field: "annotations", key: "other", ...values })).toBeUndefined();
});
