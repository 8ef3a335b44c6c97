import { expect, test } from "vitest";
import type { Place } from "../types.gen";
import { labelIn, namedLike } from "./searching";

const place = (name: string): Place => ({ name, objects: 0, states: {}, arriving: 0, leaving: 0, replicas: 0, policies: [] });

test("the cluster with the name comes first, then those whose names begin with it", () => {
  const places = ["", "new-eu-1", "eu-10", "eu-2", "EU-1", "us-1"].map(place);
  expect(namedLike(places, "eu-1").map((p) => p.name)).toEqual(["EU-1", "eu-10", "new-eu-1"]);
  expect(namedLike(places, "eu").map((p) => p.name)).toEqual(["EU-1", "eu-2", "eu-10", "new-eu-1"]);
});

test.each([["tier=gold", "tier"], ["example.com/tier=", "example.com/tier"], ["=gold", undefined], ["eu-1", undefined], ["a b=c", undefined], ["a=b=c", "a"]])("the label in %j is %j", (text, want) => {
  expect(labelIn(text)).toBe(want);
});
