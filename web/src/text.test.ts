import { expect, it } from "vitest";
import { plain } from "./text";

it.each([["a\u202eb", "a\\u{202e}b"], ["a\nb", "a\\u{a}b"], ["ü 語 😀", "ü 語 😀"], ["\u{e0001}", "\\u{e0001}"]])("shows %j as %j", (text, want) => {
  expect(plain(text)).toBe(want);
});
