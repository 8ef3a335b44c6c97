import { expect, it } from "vitest";
import { packed, unpacked } from "./share";

const tried = { text: "kind: PlacementPolicy # ü \u202e\n".repeat(100), source: "policy/eu", set: ["nodes/a:spec.unschedulable=true"], remove: ["nodes/b"] };

it("packs changes, and unpacks them again", async () => {
  const text = await packed(tried);
  expect(text).toMatch(/^[\w-]+$/);
  expect(text.length).toBeLessThan(400);
  expect(await unpacked(text)).toEqual(tried);
});

it.each(["", "!", "AAAA", btoa("{}")])("refuses %j", async (text) => {
  await expect(unpacked(text)).rejects.toThrow();
});

it("stops at a change that is too large", async () => {
  const text = await packed({ ...tried, text: "a".repeat(16 << 20) });
  // The end is missing, which only shows after all of the rest.
  await expect(unpacked(text.slice(0, -8))).rejects.toThrow("too large");
});
